"""The stub's side where resources end, and at its own end."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from om_backend.device.observer import State
from om_backend.device.policy import RestartPolicy

from voxrepo_contract.errors import ConfigError, InvalidArgument, Unavailable

from .client_calls import QUICK, Make, Write, call, wait_for, worker_pid
from .conftest import Lines, is_alive, shed
from .tiny_runtime import BIG, DIE


def out_of(monkeypatch: pytest.MonkeyPatch, target: str, error: Exception, times: int = 1) -> None:
    """Let a function fail for the first ``times`` calls."""
    module, _, name = target.rpartition(".")
    inner = getattr(importlib.import_module(module), name)
    left = [error] * times

    def failing(*args: Any, **options: Any) -> Any:
        if left:
            raise left.pop()
        return inner(*args, **options)

    monkeypatch.setattr(target, failing)


NO_FILES = OSError(errno.EMFILE, "Too many open files")


NO_THREADS = RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("target", "error"), [("socket.socketpair", NO_FILES), ("om_backend.device.process.LogPump", NO_THREADS)]
)
def test_a_restart_that_finds_no_resources_is_tried_again(
    make_worker: Make, graph_file: Write, log: Lines, monkeypatch: pytest.MonkeyPatch, target: str, error: Exception
):
    worker = make_worker(policy=RestartPolicy(first_delays_s=(0.0, 0.05)))
    graph, _ = worker.load(graph_file(), {})
    out_of(monkeypatch, target, error, times=2)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.RESTARTING)
    wait_for(worker, State.READY)
    call(worker, graph)
    assert str(error.args[-1]) in log.text


@pytest.mark.parametrize(
    ("target", "error", "kind"),
    [
        ("socket.socketpair", NO_FILES, ConfigError),
        ("om_backend.device.process.LogPump", NO_THREADS, Unavailable),
    ],
)
def test_a_first_start_that_finds_no_resources_refuses_the_load_and_leaves_nothing(
    make_worker: Make,
    graph_file: Write,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    error: Exception,
    kind: type[Exception],
):
    worker = make_worker()
    us = psutil.Process()
    descriptors, children = us.num_fds(), len(us.children())
    out_of(monkeypatch, target, error, times=2)
    with pytest.raises(kind, match=str(error.args[-1])):
        worker.load(graph_file(), {})
    assert us.num_fds() <= descriptors
    assert len(us.children()) <= children
    monkeypatch.undo()
    graph, _ = worker.load(graph_file(), {})
    call(worker, graph)


def test_a_run_for_which_there_is_no_shared_memory_fails_alone(
    make_worker: Make, graph_file: Write, monkeypatch: pytest.MonkeyPatch
):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    out_of(monkeypatch, "om_backend.device.memory.create_memfd", NO_FILES, times=2)
    with pytest.raises(Unavailable, match=r"no shared memory can be had.*Too many open files"):
        call(worker, graph, size=1 << 20)
    call(worker, graph, size=1 << 20)
    assert worker_pid(worker) == pid


def test_requests_and_answers_beyond_the_limit_are_refused(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(message_limit_bytes=1 << 20)
    graph, _ = worker.load(graph_file(), {})
    pid = worker.pid
    with pytest.raises(InvalidArgument, match=r"the request is too large: .* 2000064 bytes; the limit is 1048576"):
        call(worker, graph, size=500_000)
    shed(tokens)
    with pytest.raises(InvalidArgument, match="the answer is too large"):
        call(worker, graph, BIG)
    call(worker, graph, size=200_000)
    assert worker.pid == pid


def test_giant_tensors_pass_and_their_memory_comes_back(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    call(worker, graph, size=40_000_000)
    process = worker._process
    assert process is not None
    child = psutil.Process(worker_pid(worker))
    assert child.memory_info().rss > 250 << 20
    worker.trim()
    call(worker, graph)
    assert child.memory_info().rss < 100 << 20
    assert process._area.size_bytes == 1 << 16


def test_a_thousand_runs_leave_nothing_behind(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    us, child = psutil.Process(), psutil.Process(worker_pid(worker))
    sizes = np.random.default_rng(1).integers(1, 60_000, 200)

    def footprint() -> list[int]:
        for size in sizes:
            call(worker, graph, size=int(size))
        return [us.num_fds(), child.num_fds(), us.memory_info().rss, child.memory_info().rss]

    first = [footprint() for _ in range(2)][-1]
    last = [footprint() for _ in range(5)][-1]
    assert last[:2] == first[:2]
    assert last[2] - first[2] < 4 << 20
    assert last[3] - first[3] < 4 << 20


def test_ten_restarts_leave_nothing_behind(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    us = psutil.Process()

    def restart() -> tuple[int, int]:
        shed(tokens)
        call(worker, graph, DIE)
        return us.num_fds(), us.num_threads()

    first = [restart() for _ in range(2)][-1]
    assert [restart() for _ in range(8)][-1] == first
    assert not [child for child in us.children() if child.status() == psutil.STATUS_ZOMBIE]


def test_closing_releases_the_device_in_order(make_worker: Make, graph_file: Write, tmp_path: Path):
    life = tmp_path / "life"
    worker = make_worker(options={"life_log": str(life)})
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    worker.close()
    worker.close()
    assert not is_alive(pid)
    assert life.read_text().splitlines() == [f"open {pid}", f"load graph.json {pid}", f"close {pid}"]
    with pytest.raises(Unavailable, match="being unloaded"):
        call(worker, graph)


def test_closing_does_not_wait_for_a_hung_worker(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(limits=replace(QUICK, run=60, close=1))
    worker.load(graph_file(), {})
    pid = worker_pid(worker)
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    worker.close()
    assert time.monotonic() - start < 5
    assert not is_alive(pid)


def test_signals_meant_for_the_server_do_not_end_the_worker(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    time.sleep(0.1)
    call(worker, graph)
    assert worker.pid == pid
