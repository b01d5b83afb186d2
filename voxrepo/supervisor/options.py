"""What ``voxrepo serve`` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxrepo.repository.layout import Layout
from voxrepo.supervisor.device import Asked


@dataclass(frozen=True)
class ServeOptions:
    """What ``voxrepo serve`` was asked for.

    Attributes:
        layout: root and state folder.
        host: address the edge listens on.
        http_port: Open Inference HTTP; 0 takes any free port, likewise below.
        grpc_port: Open Inference gRPC.
        metrics_port: Prometheus.
        engine: tritonserver to use instead of the wheel's.
        drain_timeout_s: time for requests in flight at shut-down.
        callables: open the engine's HTTP door on loopback for PyTriton's ``RemoteTriton``.
        log_text: write the texts of requests to the edge's log.
        device: what graphs with ``device: npu`` shall run on.
        worker_python: Python of device workers; this one if not given.
        emulator_settings: JSON file with settings of the emulator.
    """

    layout: Layout
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    engine: Path | None = None
    drain_timeout_s: float = 30.0
    callables: bool = False
    log_text: bool = False
    device: Asked = "auto"
    worker_python: Path | None = None
    emulator_settings: Path | None = None
