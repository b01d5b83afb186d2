"""What ``voxrepo serve`` can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxrepo.edge.admission import DEFAULT_LIMITS, AdmissionLimits
from voxrepo.edge.options import ROUTING_KEY_HEADER
from voxrepo.engine.control import LOAD_TIMEOUT_S
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
        edge_workers: processes that share the ports.
        engine: tritonserver to use instead of the wheel's.
        drain_timeout_s: time for requests in flight at shut-down.
        callables: open the engine's HTTP door on loopback for PyTriton's ``RemoteTriton``.
        engine_timeout_s: silence after which the engine hangs and is restarted.
        load_timeout_s: for the load of one model.
        engine_memory_mib: MiB of the engine and its stubs above which it is started afresh, 0 for never; if not
            given, a share of this machine's or container's memory.
        limits: who is let in, see :mod:`voxrepo.edge.admission`.
        log_text: write the texts of requests to the edge's log.
        routing_key_header: HTTP header and gRPC metadata that assign requests to arms of a rollout.
        device: what graphs with ``device: npu`` shall run on.
        worker_python: Python of device workers; this one if not given.
        emulator_settings: JSON file with settings of the emulator.
        replica_name: of this server among those of the root, for rollouts; if not given, one that is the same at every
            start.
        controller: whether to run a controller of rollouts.
    """

    layout: Layout
    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002
    edge_workers: int = 1
    engine: Path | None = None
    drain_timeout_s: float = 30.0
    callables: bool = False
    limits: AdmissionLimits = DEFAULT_LIMITS
    log_text: bool = False
    routing_key_header: str = ROUTING_KEY_HEADER
    engine_timeout_s: float = 10.0
    load_timeout_s: float = LOAD_TIMEOUT_S
    engine_memory_mib: int | None = None
    device: Asked = "auto"
    worker_python: Path | None = None
    emulator_settings: Path | None = None
    replica_name: str | None = None
    controller: bool = True
