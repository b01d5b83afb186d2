from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from om_backend.device.client import DeviceWorker
from om_backend.device.policy import RestartPolicy
from om_backend.device.settings import RuntimeEntry, WorkerSettings, worker_environment

HERE = Path(__file__).parent
TINY = RuntimeEntry("tiny", "tiny_runtime:open_device")


def tiny_settings(**changes: Any) -> WorkerSettings:
    values: dict[str, Any] = {
        "python": sys.executable,
        "mode": "cpu",
        "runtime": TINY,
        "packages": {"tiny_runtime": HERE / "tiny_runtime"},
        "environment": worker_environment("cpu", os.environ),
    }
    return WorkerSettings(**{**values, **changes})


class Lines:
    """A log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, level: str, line: str) -> None:
        self.lines.append((level, line))

    @property
    def text(self) -> str:
        return "\n".join(f"{level}: {line}" for level, line in self.lines)


@pytest.fixture
def log() -> Lines:
    return Lines()


@pytest.fixture
def make_worker(log: Lines) -> Iterator[Callable[..., DeviceWorker]]:
    made: list[DeviceWorker] = []

    def make(policy: RestartPolicy | None = None, **changes: Any) -> DeviceWorker:
        others = {name: changes.pop(name) for name in ("observer", "repeat_within_s") if name in changes}
        made.append(DeviceWorker(tiny_settings(**changes), log, policy, **others))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    folder = tmp_path / "tokens"
    folder.mkdir()
    return folder


@pytest.fixture
def graph_file(tmp_path: Path, tokens: Path) -> Callable[..., Path]:
    def write(name: str = "graph.json", **changes: Any) -> Path:
        file = tmp_path / name
        file.write_text(json.dumps({"factor": 2.0, "tokens": str(tokens), **changes}), "utf-8")
        return file

    return write


def shed(tokens: Path, count: int = 1) -> None:
    """Let the next ``count`` commands go wrong."""
    for number in range(count):
        (tokens / f"{number:03}").touch()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
