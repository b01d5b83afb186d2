"""The server's state on disk: what ``voxrepo status`` and ``voxrepo stop`` read, and the lock of a root."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, Field, ValidationError

from voxrepo.metrics import supervision
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import AlreadyExists, ConfigError
from voxrepo_contract.yamlfile import write_text_atomically

Phase = Literal["starting", "loading", "ready", "degraded", "draining", "stopped"]


class ModelStatus(BaseModel):
    """One voice or model as the server sees it.

    Attributes:
        versions: version of each stage of a voice.
        served: versions of a model.
        left_out: versions of a model that should be served and are not, with the reason; others of it may be.
    """

    name: str
    kind: Literal["voice", "model"]
    state: Literal["loading", "ready", "failed"]
    versions: dict[str, int] = Field(default_factory=dict)
    reason: str = ""
    served: list[int] = Field(default_factory=list)
    left_out: dict[int, str] = Field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is served that should be."""
        return self.state == "ready" and not self.left_out

    @property
    def complaints(self) -> list[str]:
        """What is not served of it, and why, as sentences."""
        whole = [f"{self.name} is not served: {self.reason}"] if self.reason else []
        return whole + [
            f"{self.name} version {version} is not served: {reason}" for version, reason in self.left_out.items()
        ]


class EdgeWorkerStatus(BaseModel):
    """One process of the edge.

    Attributes:
        pid: of the process that runs, if one does.
        serves: whether it listens.
        restarts: how often it was started again.
    """

    pid: int | None
    serves: bool
    restarts: int = 0


class ArmLine(BaseModel):
    """One arm of a voice under a rollout, for ``voxrepo status``. ``reason`` says why it is not served."""

    name: str
    state: Literal["loading", "ready", "failed", "unloading"]
    versions: dict[str, int] = Field(default_factory=dict)
    reason: str = ""


class ServerState(BaseModel):
    """State of one server. Phase ``degraded``: up, but something that should be served is not.

    Attributes:
        engine_restarts: after the engine ended or hung.
        engine_recycles: because of its memory.
        engine_memory_bytes: of the engine and its stubs.
        stub_restarts: stubs that died and were replaced.
        held: voices and models in recovery; requests for them wait.
        arms: of rollouts.
        replica: name of this server among those of its root.
    """

    pid: int
    started_at: float
    phase: Phase
    http_url: str = ""
    grpc_url: str = ""
    metrics_url: str = ""
    engine: str = ""
    device: str = "cpu"
    device_label: str = ""
    engine_pid: int | None = None
    engine_restarts: int = 0
    engine_recycles: int = 0
    engine_memory_bytes: int = 0
    stub_restarts: int = 0
    held: list[str] = Field(default_factory=list)
    edge_workers: list[EdgeWorkerStatus] = Field(default_factory=list)
    edge_restarts: int = 0
    models: list[ModelStatus] = Field(default_factory=list)
    arms: list[ArmLine] = Field(default_factory=list)
    replica: str = ""
    callables_url: str = ""
    callables_token_file: str = ""
    log_folder: str = ""

    @property
    def phase_of_models(self) -> Phase:
        """The phase that follows from the models alone."""
        if any(status.state == "loading" for status in self.models):
            return "loading"
        return "ready" if all(status.is_whole for status in self.models) and not self.held else "degraded"


class StateFolder:
    """``<state>/``: ``lock``, ``server.json``, ``table.json``, ``edge/``, ``logs/``."""

    def __init__(self, layout: Layout) -> None:
        self.path = layout.state
        self.server_file = self.path / "server.json"
        self.table_file = self.path / "table.json"
        self.edge = self.path / "edge"
        self.supervision_file = self.path / supervision.FILE_NAME
        self.token_file = self.path / "callables.token"
        self.logs = self.path / "logs"
        self._lock_handle: int | None = None

    def acquire(self) -> None:
        """Take the lock of this state folder; the kernel frees it when the process ends, however it ends.

        Raises:
            AlreadyExists: another server holds it.
            ConfigError: the folder cannot be written.
        """
        self.create()
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._not_writable(error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            running = self.read()
            who = "" if running is None else f" (pid {running.pid}, {running.http_url})"
            raise AlreadyExists(
                f"a server is already running for this folder{who}; stop it with `voxrepo stop`"
            ) from error
        except OSError as error:  # a file system without locks
            os.close(handle)
            raise ConfigError(
                f"cannot be locked ({error.strerror}); give another place with --state-dir", file=self.path
            ) from error
        self._lock_handle = handle

    def create(self) -> None:
        """Make the folder and its ``logs/``.

        Raises:
            ConfigError: it cannot be made.
        """
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._not_writable(error) from error

    def _not_writable(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot be written ({error.strerror}); give another place with --state-dir", file=self.path)

    def release(self) -> None:
        """Give the lock back."""
        if self._lock_handle is not None:
            os.close(self._lock_handle)
            self._lock_handle = None

    def write_token(self, token: str) -> None:
        """Write the token for callables, readable by this user only."""
        remove_quietly(self.token_file)
        handle = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(token)

    def write(self, state: ServerState) -> None:
        """Replace ``server.json`` in one step."""
        write_text_atomically(self.server_file, state.model_dump_json(indent=1))

    def read(self) -> ServerState | None:
        """The last state written, whether or not that server still runs."""
        try:
            return ServerState.model_validate_json(self.server_file.read_bytes())
        except (OSError, ValidationError, json.JSONDecodeError):
            return None

    def read_running(self) -> ServerState | None:
        """The state of the server that runs now, if one does."""
        state = self.read()
        return state if state is not None and process_of(state) is not None else None


def process_of(state: ServerState) -> psutil.Process | None:
    """The server's process, unless it has ended and its number was given to another one."""
    try:
        process = psutil.Process(state.pid)
        if abs(process.create_time() - state.started_at) < 1.0 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.Error:
        pass
    return None


def remove_quietly(file: Path) -> None:
    """Remove a file of the state folder if it is there."""
    with contextlib.suppress(OSError):  # it is not there, or the disk has become read-only
        file.unlink()
