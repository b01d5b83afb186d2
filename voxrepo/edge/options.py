"""Command line of the edge process. The supervisor is its only caller; users meet ``voxrepo serve``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voxrepo.edge.admission import AdmissionLimits
from voxrepo.edge.engine_client import MAX_CALLS
from voxrepo.edge.holding import HOLD_TIMEOUT_S

_HEADER = re.compile(r"\A[a-z0-9_.-]{1,64}\Z")

DEFAULT_MAX_BODY_BYTES = 64 * 1024 * 1024
"""As Triton's own default for HTTP bodies."""


ROUTING_KEY_HEADER = "x-routing-key"
"""HTTP header, or key of gRPC metadata, whose value assigns a request to an arm where its parameters do not."""


@dataclass(frozen=True)
class EdgeOptions:
    """Settings of one edge process.

    Attributes:
        engine: gRPC target of the engine.
        table: file with the table of voices.
        host: address to listen on.
        http_port: port of the HTTP door, 0 for any free one.
        grpc_port: port of the gRPC door, 0 for any free one.
        metrics_port: port of the metrics page, 0 for any free one.
        engine_metrics_url: the engine's metrics page.
        drain_timeout_s: how long a stop waits for requests and engine calls.
        shares_ports: the ports were kept for several edge processes, this one among them.
        worker: number of this process among them, from 0.
        workers: how many they are; limits of the server are divided among them.
        metrics_folder: where all of them count; if not given, this one counts in its memory.
        ready_file: written once all ports listen.
        max_body_bytes: largest request, after decompression.
        max_engine_calls: inference calls at a time of models to which the table gives no number.
        hold_timeout_s: how long a request waits for a voice whose process or engine is being restarted.
        max_queue_s: longest time that a request is let in to wait; 0 for any, likewise below.
        max_streams: streams of the whole server at a time.
        max_streams_per_voice: streams of one voice at a time.
        max_utilisation: part of the measured capacity that streams may need.
        stall_timeout_s: how long a stream keeps its place though its client takes nothing.
        log_text: log the texts that are spoken.
        routing_key_header: header with the routing key, in lower case.
        rollout_folder: where this server's observations of rollouts go; if not given, nothing is observed.
    """

    engine: str
    table: Path
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    engine_metrics_url: str | None = None
    drain_timeout_s: float = 30.0
    shares_ports: bool = False
    worker: int = 0
    workers: int = 1
    metrics_folder: Path | None = None
    ready_file: Path | None = None
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    max_engine_calls: int = MAX_CALLS
    hold_timeout_s: float = HOLD_TIMEOUT_S
    max_queue_s: float = AdmissionLimits.max_queue_s
    max_streams: int = AdmissionLimits.max_streams
    max_streams_per_voice: int = AdmissionLimits.max_streams_per_voice
    max_utilisation: float = AdmissionLimits.max_utilisation
    stall_timeout_s: float = AdmissionLimits.stall_timeout_s
    log_text: bool = False
    routing_key_header: str = ROUTING_KEY_HEADER
    rollout_folder: Path | None = None


def edge_command(options: EdgeOptions) -> list[str]:
    """The command line of an edge process; :func:`parse_options` reads it back."""
    command = [sys.executable, "-m", "voxrepo.edge"]
    for name, value in vars(options).items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            command.append(flag)
        elif value is not None and value is not False:
            command.append(f"{flag}={value}")
    return command


def _port(value: str) -> int:
    port = int(value)
    if not 0 <= port <= 65535:
        raise ValueError(value)
    return port


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise ValueError(value)
    return number


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0 <= seconds < 1e6:
        raise ValueError(value)
    return seconds


def _count(value: str) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _part(value: str) -> float:
    part = float(value)
    if not 0 <= part <= 100:
        raise ValueError(value)
    return part


def header_name(value: str) -> str:
    """A name that HTTP headers and gRPC metadata with text can have, in lower case as the latter want it.

    Raises:
        ValueError: it is none.
    """
    name = value.lower()
    if not _HEADER.match(name) or name.startswith("grpc-") or name.endswith("-bin"):
        raise ValueError(f"{value!r} is no name of a header: letters, digits, '-', '_' and '.', without '-bin' behind")
    return name


header_name.__name__ = "name of a header"  # argparse shows it
_port.__name__ = "port (0 to 65535)"
_positive.__name__ = "positive whole number"
_seconds.__name__ = "number of seconds"
_count.__name__ = "whole number, not below 0"
_part.__name__ = "number from 0 to 100"


def parse_options(arguments: Sequence[str]) -> EdgeOptions:
    """Options from command line arguments; exits with status 2 and a sentence on wrong ones."""
    parser = argparse.ArgumentParser(prog="python -m voxrepo.edge", description=__doc__)
    parser.add_argument("--engine", required=True, metavar="TARGET")
    parser.add_argument("--table", required=True, type=Path, metavar="FILE")
    parser.add_argument("--host", default=EdgeOptions.host)
    parser.add_argument("--http-port", type=_port, default=EdgeOptions.http_port)
    parser.add_argument("--grpc-port", type=_port, default=EdgeOptions.grpc_port)
    parser.add_argument("--metrics-port", type=_port, default=EdgeOptions.metrics_port)
    parser.add_argument("--engine-metrics-url", metavar="URL")
    parser.add_argument("--drain-timeout-s", type=_seconds, default=EdgeOptions.drain_timeout_s)
    parser.add_argument("--shares-ports", action="store_true")
    parser.add_argument("--worker", type=int, default=EdgeOptions.worker)
    parser.add_argument("--workers", type=_positive, default=EdgeOptions.workers)
    parser.add_argument("--metrics-folder", type=Path, metavar="FOLDER")
    parser.add_argument("--ready-file", type=Path, metavar="FILE")
    parser.add_argument("--max-body-bytes", type=_positive, default=EdgeOptions.max_body_bytes)
    parser.add_argument("--max-engine-calls", type=_positive, default=EdgeOptions.max_engine_calls)
    parser.add_argument("--hold-timeout-s", type=_seconds, default=EdgeOptions.hold_timeout_s)
    parser.add_argument("--max-queue-s", type=_seconds, default=EdgeOptions.max_queue_s)
    parser.add_argument("--max-streams", type=_count, default=EdgeOptions.max_streams)
    parser.add_argument("--max-streams-per-voice", type=_count, default=EdgeOptions.max_streams_per_voice)
    parser.add_argument("--max-utilisation", type=_part, default=EdgeOptions.max_utilisation)
    parser.add_argument("--stall-timeout-s", type=_seconds, default=EdgeOptions.stall_timeout_s)
    parser.add_argument("--log-text", action="store_true")
    parser.add_argument("--routing-key-header", type=header_name, default=EdgeOptions.routing_key_header)
    parser.add_argument("--rollout-folder", type=Path, metavar="FOLDER")
    return EdgeOptions(**vars(parser.parse_args(arguments)))
