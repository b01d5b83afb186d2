"""Starting real servers for tests, and stopping them whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from voxrepo.engine.workspace import Workspace
from voxrepo.repository.layout import Layout

VOICE = "en-joe"
MANDARIN_VOICE = "zh-baker"
START_TIMEOUT_S = 120
ADMIT_ALL = {"VOXREPO_MAX_QUEUE": "0", "VOXREPO_MAX_UTILISATION": "0"}
"""Tests run on slow machines too: nobody is refused for a predicted wait, unless a test is about that and says so."""


def voxrepo(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line and return what it said."""
    return subprocess.run(
        [sys.executable, "-m", "voxrepo", *arguments],
        capture_output=True,
        text=True,
        timeout=options.pop("timeout", 180),
        env={**os.environ, "COLUMNS": "250", "NO_COLOR": "1"},
        check=False,
        **options,
    )


def clone_root(source: Path, target: Path) -> Path:
    """A copy of a root that shares the graphs (hard links) and owns everything that may be edited.

    Only what a root is made of is copied, so that the copy may lie within it: links need one file system.
    """

    def link_graphs(src: str, dst: str) -> None:
        if src.endswith((".onnx", ".om")):
            os.link(src, dst)
        else:
            shutil.copy2(src, dst)

    target.mkdir(parents=True)
    for folder in ("ensembles", "model_repository"):
        if (source / folder).is_dir():
            shutil.copytree(source / folder, target / folder, copy_function=link_graphs)
    return target


def edit_yaml(file: Path, **changes: Any) -> None:
    """Set keys of a YAML file; a key like ``stages__vocoder__instances`` goes down."""
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    for key, value in changes.items():
        *path, last = key.split("__")
        place = data
        for part in path:
            place = place[part]
        place[last] = value
    file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")


@dataclass
class RunningServer:
    """A server that runs in a process of its own.

    Attributes:
        http_url: ``localhost:PORT``, as tritonclient takes it; likewise ``grpc_url`` and ``metrics_url``.
    """

    root: Path
    process: subprocess.Popen[bytes]
    log_file: Path
    state_dir: Path
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def http_url(self) -> str:
        return str(self.state["http_url"]).removeprefix("http://")

    @property
    def grpc_url(self) -> str:
        return str(self.state["grpc_url"])

    @property
    def metrics_url(self) -> str:
        return str(self.state["metrics_url"]).removeprefix("http://")

    @property
    def workspace(self) -> Workspace:
        return Workspace.of(Layout.of(self.root, self.state_dir))

    def read_state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.state_dir / "server.json").read_bytes())
        except (OSError, json.JSONDecodeError):
            return {}
        return state if state.get("pid") == self.process.pid else {}

    def wait_for(self, *phases: str, timeout_s: float = START_TIMEOUT_S) -> None:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            self.state = self.read_state()
            if self.state.get("phase") in phases:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"not {phases} but {self.state.get('phase')}:\n{self.log()}")

    def log(self) -> str:
        text = self.log_file.read_text(encoding="utf-8", errors="replace")
        folder = self.state_dir / "logs"
        for file in (*sorted(folder.glob("edge*.log")), folder / "engine.log"):
            name = file.name
            if file.exists():
                text += f"\n--- {name}\n" + file.read_text(encoding="utf-8", errors="replace")[-3000:]
        return text

    def tree(self) -> list[psutil.Process]:
        """The supervisor and all its descendants."""
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def stop(self, timeout_s: float = 60) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the whole tree with -9."""
        processes = []
        if self.process.poll() is None:
            processes = self.tree()
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        self.process.wait(10)


def pid_of(state: dict[str, Any], child: str) -> int | None:
    """Process id of the ``engine`` or of the first ``edge`` process by the server's state; ``None`` if it is down."""
    workers = state.get("edge_workers") or [{"pid": None}]
    pid: int | None = workers[0]["pid"] if child == "edge" else state.get("engine_pid")
    return pid


@contextmanager
def running_server(
    root: Path,
    *arguments: str,
    phases: Sequence[str] = ("ready",),
    environment: dict[str, str] | None = None,
    state_dir: Path | None = None,
) -> Iterator[RunningServer]:
    """``voxrepo serve`` on free ports, stopped at the end."""
    state = state_dir or root / ".voxrepo"
    state.mkdir(exist_ok=True)
    log_file = state / "serve.log"
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    with log_file.open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "voxrepo",
                "serve",
                "--root",
                str(root),
                "--state-dir",
                str(state),
                *ports,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "COLUMNS": "250", "NO_COLOR": "1", **ADMIT_ALL, **(environment or {})},
        )
    server = RunningServer(root, process, log_file, state)
    try:
        server.wait_for(*phases)
        yield server
    finally:
        try:
            server.stop()
        finally:
            if process.poll() is None:
                server.kill()
