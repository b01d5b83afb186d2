"""The engine's command line and environment. Pure functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.workspace import Workspace
from voxrepo_contract import environment as variables

TOKEN_HEADER = "triton-access-token"  # noqa: S105  the name of a header
DEVICE_VARIABLES = (variables.DEVICE, variables.WORKER_PYTHON, variables.EMULATOR_DIR, variables.EMULATOR_SETTINGS)
"""Tell the backend what graphs for an NPU run on."""
RESTRICTED_APIS = "inference,shared-memory,model-repository,statistics,trace,logging"


@dataclass(frozen=True)
class RemoteControl:
    """The engine's HTTP door for PyTriton's ``RemoteTriton``: loopback only, control calls behind a token."""

    port: int
    token: str


def engine_command(
    binary: EngineBinary,
    workspace: Workspace,
    *,
    metrics_port: int,
    exit_timeout_s: int,
    remote: RemoteControl | None = None,
) -> list[str]:
    """Arguments for tritonserver.

    Every flag is there for a reason:

    * explicit control: what is loaded is decided by the supervisor, which has checked it;
    * no exit on error, non-strict readiness: one broken model must not take the others down, nor may readiness
      drop while a version loads;
    * no auto-complete: it would start every stub a second time, and our configurations are complete;
    * 16 load threads: a load that hangs for ever holds one, and with the default of 4 all loads stop;
    * gRPC on a unix socket in a private folder: nobody but this user can reach the engine;
    * settings of Python-based backends are read from the name ``python`` whatever the backend is called;
    * 1 MiB shared memory per instance to start with, grown by what is needed.
    """
    command = [
        str(binary.path),
        *(f"--model-repository={path}" for path in workspace.repositories),
        f"--backend-directory={workspace.backends}",
        "--model-control-mode=explicit",
        "--exit-on-error=false",
        "--strict-readiness=false",
        "--disable-auto-complete-config",
        "--model-load-thread-count=16",
        f"--backend-config=python,shm-region-prefix-name={workspace.shm_prefix}",
        "--backend-config=python,shm-default-byte-size=1048576",
        "--backend-config=python,shm-growth-byte-size=1048576",
        f"--grpc-address={workspace.grpc_address}",
        "--grpc-port=1",
        "--metrics-address=127.0.0.1",
        f"--metrics-port={metrics_port}",
        "--allow-gpu-metrics=false",
        f"--exit-timeout-secs={exit_timeout_s}",
    ]
    if remote is None:
        command.append("--allow-http=false")
    else:
        command += [
            "--http-address=127.0.0.1",
            f"--http-port={remote.port}",
            f"--http-restricted-api={RESTRICTED_APIS}:{TOKEN_HEADER}={remote.token}",
        ]
    return command


def engine_environment(
    binary: EngineBinary,
    base: Mapping[str, str] = os.environ,
    *,
    costs_folder: Path | None = None,
    locks_folder: Path | None = None,
    device: Mapping[str, str] | None = None,
    stub_patience_s: float | None = None,
    stubs_folder: Path | None = None,
) -> dict[str, str]:
    """Environment of the engine: this Python first in ``PATH`` (stubs find their packages through it), libraries
    of the wheel and of Python in ``LD_LIBRARY_PATH``, and where instances share what they measure.

    Args:
        binary: the engine.
        base: environment to start from; what it says of devices is dropped, as that is decided by the caller.
        costs_folder: where instances share what they measure.
        locks_folder: where device workers keep the locks under which they load.
        device: variables for stubs and device workers.
        stub_patience_s: see :meth:`voxrepo.engine.workspace.Workspace.create`.
        stubs_folder: where stubs say which version they run.
    """
    environment = {name: value for name, value in base.items() if name not in DEVICE_VARIABLES}
    environment |= device or {}
    # device workers get the operator's own libraries, such as CANN's, without the engine's
    environment[variables.WORKER_LD_LIBRARY_PATH] = base.get("LD_LIBRARY_PATH", "")
    here = Path(sys.executable).parent
    environment["PATH"] = os.pathsep.join([str(here), base.get("PATH", os.defpath)])
    libraries = [*map(str, binary.library_dirs), base.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(part for part in libraries if part)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if costs_folder is not None:
        environment[variables.COSTS_DIR] = str(costs_folder)
    if locks_folder is not None:
        environment[variables.LOCKS_DIR] = str(locks_folder)
    if stubs_folder is not None:
        environment[variables.STUBS_DIR] = str(stubs_folder)
    if stub_patience_s is not None:
        environment[variables.STUB_PATIENCE_S] = f"{stub_patience_s:g}"
    # the stages bring their own parallelism; a BLAS pool per process would fight it
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    return environment
