"""A disk that fills up under a server that serves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import speak
from tests.harness import START_TIMEOUT_S, clone_root, pid_of, running_server

pytestmark = pytest.mark.e2e


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Iterator[Path]:
    """A root whose state folder, logs included, is a file system of one megabyte."""
    root = clone_root(voice_root, tmp_path / "root")
    state = root / ".voxrepo"
    state.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", state], check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield root
    subprocess.run(["umount", state], check=True)


def fill(folder: Path) -> Path:
    file = folder / "filler"
    with file.open("wb", buffering=0) as stream:
        while True:
            try:
                stream.write(bytes(1024))
            except OSError:
                return file


def speaks_within(url: str, timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            with grpc_client.InferenceServerClient(url) as client:
                return len(speak(client, "Still here.")) > 0
        except InferenceServerException:
            time.sleep(0.2)
    return False


@pytest.mark.soak
@pytest.mark.parametrize("victim", ["engine", "edge"])
def test_a_killed_child_is_replaced_while_the_disk_is_full_and_all_is_told_once_it_is_not(
    root: Path, victim: str
) -> None:
    with running_server(root) as server:
        before = {child: pid for child in ("edge", "engine") if (pid := pid_of(server.read_state(), child)) is not None}
        filler = fill(root / ".voxrepo")
        os.kill(before[victim], signal.SIGKILL)
        time.sleep(1)  # until the supervisor has noticed
        assert speaks_within(server.grpc_url, START_TIMEOUT_S)
        assert server.process.poll() is None
        filler.unlink()
        other = "edge" if victim == "engine" else "engine"
        os.kill(before[other], signal.SIGKILL)
        end = time.monotonic() + START_TIMEOUT_S
        while pid_of(server.read_state(), other) in (None, before[other]) or server.read_state()["phase"] != "ready":
            assert time.monotonic() < end, server.read_state()
            time.sleep(0.1)
        assert pid_of(server.read_state(), victim) not in (None, before[victim])
        assert speaks_within(server.grpc_url, 5)
