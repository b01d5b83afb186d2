"""What a device worker is started with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import om_backend
import voxrepo_contract
from voxrepo_contract import environment as variables
from voxrepo_contract.errors import ConfigError

Mode = Literal["cpu", "npu", "emulator"]
MODES: tuple[Mode, ...] = ("cpu", "npu", "emulator")

MARGIN_S = 2.0
"""On top of the runtime's own watchdog: it should speak first, it knows more."""


@dataclass(frozen=True)
class Limits:
    """Seconds that each operation may take before the worker is given up.

    The first use of a device takes seconds, a large graph minutes. A load may wait ``load_wait`` of its time for those
    of other workers. ``idle`` is the time after which one that nobody asks is asked whether it still answers.
    """

    start: float = 60.0
    open: float = 180.0
    load: float = 900.0
    load_wait: float = 600.0
    run: float = 30.0 + MARGIN_S
    short: float = 20.0
    ping: float = 10.0
    idle: float = 5.0
    close: float = 5.0


@dataclass(frozen=True)
class RuntimeEntry:
    """A runtime: its name, and ``module:function`` of its ``open_device(device_id, options)`` in the worker."""

    name: str
    entry: str


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker process is started.

    Attributes:
        python: the worker's interpreter.
        mode: what the server was started for.
        runtime: what runs graphs in the worker.
        device_id: number of the device as AscendCL counts it.
        options: of the runtime, e.g. ``watchdog_ms``.
        packages: packages that the worker may import, by folder; nothing else of the stub's is visible to it.
        path: folders put in front of the worker's ``sys.path``.
        environment: of the worker.
        limits: time limits.
        load_lock: file under whose lock graphs are loaded, one for each device; ``None`` where nobody else loads there.
        message_limit_bytes: most that the tensors of one call may take, in and out each.
    """

    python: str
    mode: Mode
    runtime: RuntimeEntry
    device_id: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, Path] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    load_lock: Path | None = None
    message_limit_bytes: int = 1 << 30

    def command(self, socket_fd: int, parent: int) -> list[str]:
        """The command line of the worker."""
        bootstrap = Path(__file__).with_name("bootstrap.py")
        # no user packages (-s): what runs must not depend on whose account the server has
        command = [self.python, "-s", "-B", "-X", "utf8", "-X", "faulthandler", str(bootstrap)]
        command += [f"--socket={socket_fd}", f"--parent={parent}"]
        folders = {
            "om_backend": _folder(om_backend.__file__),
            "voxrepo_contract": _folder(voxrepo_contract.__file__),
            **self.packages,
        }
        command += [f"--package={name}={folder}" for name, folder in folders.items()]
        command += [f"--path={folder}" for folder in self.path]
        return command


def device_mode(environment: Mapping[str, str] = os.environ) -> Mode:
    """What ``VOXREPO_DEVICE`` says; ``cpu`` where it is not set.

    Raises:
        ConfigError: it says something else.
    """
    value = environment.get(variables.DEVICE, "") or "cpu"
    for mode in MODES:
        if value == mode:
            return mode
    raise ConfigError(f"VOXREPO_DEVICE is {value!r}; it must be one of {', '.join(MODES)}")


def worker_python(environment: Mapping[str, str] = os.environ) -> str:
    """The interpreter of workers: ``VOXREPO_WORKER_PYTHON``, or the first ``python3`` of ``PATH``.

    Raises:
        ConfigError: there is none.
    """
    chosen = environment.get(variables.WORKER_PYTHON, "")
    found = shutil.which(chosen or "python3", path=environment.get("PATH", os.defpath))
    if found is None:
        raise ConfigError(
            f"VOXREPO_WORKER_PYTHON names {chosen}, which cannot be run"
            if chosen
            else "device workers need a python3 in PATH, or VOXREPO_WORKER_PYTHON"
        )
    return found


def emulator_folder(environment: Mapping[str, str] = os.environ) -> str:
    """The folder that holds the emulator, from ``VOXREPO_EMULATOR_DIR``.

    Raises:
        ConfigError: it is not set or not there.
    """
    folder = environment.get(variables.EMULATOR_DIR, "")
    if not folder or not (Path(folder) / "acl" / "__init__.py").is_file():
        raise ConfigError(f"VOXREPO_EMULATOR_DIR is {folder!r}, which does not hold the emulator (acl/__init__.py)")
    return str(Path(folder).absolute())


def load_lock(device_id: int, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The lock for loads onto a device, in the folder that the server names with ``VOXREPO_LOCKS_DIR``."""
    folder = environment.get(variables.LOCKS_DIR, "")
    return Path(folder).absolute() / f"device-{device_id}.lock" if folder else None


def worker_environment(mode: Mode, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Environment of a worker.

    Variables that steer a Python are the stub's own business and dropped, except that CANN's ``set_env.sh`` makes its
    modules known through ``PYTHONPATH``. The engine's library path holds another Python's library; the worker gets
    the one from before (``VOXREPO_WORKER_LD_LIBRARY_PATH``) where the supervisor kept it.
    """
    keep = {"PYTHONPATH"} if mode == "npu" else set()
    environment = {name: value for name, value in base.items() if not name.startswith("PYTHON") or name in keep}
    libraries = base.get(variables.WORKER_LD_LIBRARY_PATH)
    if libraries is not None:
        environment["LD_LIBRARY_PATH"] = libraries
    environment[variables.DEVICE] = mode
    return environment


def _folder(file: str | None) -> Path:
    assert file is not None
    return Path(file).parent.absolute()
