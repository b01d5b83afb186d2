"""Loads of several workers onto one device."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from om_backend.device.client import DeviceWorker
from om_backend.device.settings import Limits, load_lock
from om_backend.device.turns import load_turn
from om_backend.workers import Workers

from voxrepo_contract.errors import ConfigError, Unavailable

from .conftest import Lines

Make = Callable[..., DeviceWorker]
Write = Callable[..., Path]


def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_workers_load_one_after_the_other(make_worker: Make, graph_file: Write, tmp_path: Path):
    life = tmp_path / "life"
    file = graph_file(load_s=0.3)
    workers = [make_worker(load_lock=tmp_path / "locks" / "0", options={"life_log": str(life)}) for _ in range(2)]
    threads = [threading.Thread(target=worker.load, args=(file, {})) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    loads = [line.split() for line in life.read_text().splitlines() if line.startswith("load")]
    assert [line[0] for line in loads] == ["loading", "load"] * 2
    assert loads[0][2] == loads[1][2], "the other one began in between"
    assert {line[2] for line in loads} == {str(worker.pid) for worker in workers}


def test_a_worker_killed_in_a_load_does_not_hold_the_others_up(make_worker: Make, graph_file: Write, tmp_path: Path):
    life = tmp_path / "life"
    lock = tmp_path / "0"
    stuck = make_worker(load_lock=lock, options={"life_log": str(life)}, repeat_within_s=0.1)
    slow = graph_file("slow.json", load_s=600)

    def load_slowly() -> None:
        with pytest.raises(Unavailable):
            stuck.load(slow, {})

    thread = threading.Thread(target=load_slowly)
    thread.start()
    until(lambda: life.exists() and "loading slow" in life.read_text())
    pid = stuck.pid
    assert pid is not None
    other = make_worker(load_lock=lock)
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    start = time.monotonic()
    other.load(graph_file(), {})
    assert 0.1 < time.monotonic() - start < 10
    thread.join(20)
    assert not thread.is_alive()


def test_a_load_does_not_wait_for_ever(make_worker: Make, graph_file: Write, tmp_path: Path):
    lock = tmp_path / "0"
    worker = make_worker(load_lock=lock, limits=Limits(load_wait=0.1))
    with (
        load_turn(lock, 1),
        pytest.raises(Unavailable, match=r"has been loading onto this device for more than 0\.1 s"),
    ):
        worker.load(graph_file(), {})
    worker.load(graph_file(), {})


def test_a_lock_that_cannot_be_opened_refuses_the_load(make_worker: Make, graph_file: Write, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/0, cannot be opened: "):
        make_worker(load_lock=tmp_path / "file" / "0").load(graph_file(), {})


def test_each_device_has_a_lock_of_its_own(tmp_path: Path):
    told = {"VOXREPO_LOCKS_DIR": str(tmp_path)}
    assert load_lock(0, told) == tmp_path / "device-0.lock"
    assert load_lock(1, told) != load_lock(0, told)
    assert load_lock(0, {}) is None


def test_workers_on_the_cpu_need_no_turn(log: Lines, tmp_path: Path):
    environment = {**os.environ, "VOXREPO_LOCKS_DIR": str(tmp_path)}
    workers = Workers("npu", 1, 1000, log, environment=environment)
    assert workers.get("torch_npu", "cpu").settings.load_lock is None
    assert workers.get("acl", "npu").settings.load_lock == tmp_path / "device-1.lock"
