from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import EdgeProcess, Engine


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    # not pytest's own folder: paths of unix sockets are limited to 107 bytes
    folder = Path(tempfile.mkdtemp(prefix="vxe"))
    running = Engine(folder)
    try:
        running.start(free_port())
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def edge(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeProcess]:
    url = f"http://127.0.0.1:{engine.metrics_port}/metrics"
    limit = ("--max-body-bytes", "1000000")
    running = EdgeProcess(engine.target, tmp_path_factory.mktemp("edge"), "--engine-metrics-url", url, *limit)
    yield running
    assert running.stop() == 0, running.log()
    assert "Traceback" not in running.log(), running.log()
