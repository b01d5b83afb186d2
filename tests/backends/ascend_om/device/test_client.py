"""The stub's side against real worker processes that fail in every way."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from om_backend.device.client import DeviceWorker
from om_backend.device.faults import Action
from om_backend.device.observer import Observer, State
from om_backend.device.policy import RestartPolicy
from om_backend.device.settings import Limits

from voxrepo_contract.errors import ConfigError, InvalidArgument, Unavailable

from .conftest import Lines, is_alive, shed, tiny_settings
from .tiny_runtime import BIG, BY_ACTION, DIE, FORGET, GARBAGE, HANG, OK, RAISE

Make = Callable[..., DeviceWorker]
Write = Callable[..., Path]
QUICK = Limits(start=20, open=20, load=20, run=0.5, short=5, close=2)
IMPATIENT = Limits(start=20, open=20, load=20, run=10, short=5, close=2, ping=0.5, idle=0.05)


class Counts(Observer):
    def __init__(self) -> None:
        self.faults: Counter[Action] = Counter()
        self.restarts = 0
        self.runs = 0
        self.states: list[State] = []

    def restarted(self) -> None:
        self.restarts += 1

    def fault(self, action: Action) -> None:
        self.faults[action] += 1

    def run(self, graph: str, device_s: float) -> None:
        self.runs += 1

    def state(self, runtime: str, state: State) -> None:
        self.states.append(state)


def call(worker: DeviceWorker, graph: int, command: int = OK, value: float = 1.0, size: int = 4) -> Any:
    x = np.full((1, size), value, np.float32)
    outputs = worker.run(graph, [x, np.array([command], np.int64)])
    assert (outputs[0] == x * 2).all()
    return outputs


def wait_for(worker: DeviceWorker, *states: State, timeout_s: float = 15) -> State:
    end = time.monotonic() + timeout_s
    while worker.state not in states and time.monotonic() < end:
        time.sleep(0.01)
    assert worker.state in states
    return worker.state


def worker_pid(worker: DeviceWorker) -> int:
    pid = worker.pid
    assert pid is not None
    return pid


def test_loads_and_runs_in_another_process(make_worker: Make, graph_file: Write, log: Lines):
    worker = make_worker(options={"greeting": "care"}, device_id=3)
    graph, description = worker.load(graph_file(outputs=["y", "z"]), {})
    assert [tensor.name for tensor in description.outputs] == ["y", "z"]
    assert description.memory.total_bytes == 1230
    outputs = call(worker, graph)
    assert len(outputs) == 2
    assert worker_pid(worker) != os.getpid()
    assert is_alive(worker_pid(worker))
    memory = worker.memory()
    assert memory is not None
    assert memory.total_bytes == 2 << 30
    assert "device 3 opened with care" in log.text


def test_what_the_worker_prints_reaches_the_log_with_its_letters(make_worker: Make, graph_file: Write, log: Lines):
    worker = make_worker()
    worker.load(graph_file(), {})
    assert f"info: worker {worker.pid}: b\u00fc\u4f60 on standard output" in log.text


def test_results_stay_as_they_were_when_the_next_run_comes(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    kept = [call(worker, graph, value=value)[0] for value in range(5)]
    assert [float(array[0, 0]) for array in kept] == [0, 2, 4, 6, 8]
    kept[0][:] = -1
    assert float(call(worker, graph, value=9)[0][0, 0]) == 18


def test_several_graphs_share_a_worker(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graphs = [worker.load(graph_file(f"{n}.json", factor=float(n)), {})[0] for n in range(1, 4)]
    x, command = np.ones((2, 3), np.float32), np.zeros(1, np.int64)
    assert [float(worker.run(graph, [x, command])[0][1, 2]) for graph in graphs] == [1, 2, 3]
    worker.unload(graphs[0])
    worker.unload(graphs[0])
    assert float(worker.run(graphs[1], [x, command])[0][0, 0]) == 2


def test_arrays_of_any_layout_and_size_travel(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for x in (base[::2], base.T, base[:, ::-1], base[:0], base[:, :1]):
        (y,) = worker.run(graph, [x, np.zeros(1, np.int64)])
        assert y.shape == x.shape
        assert (y == x * 2).all()


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


def test_a_graph_is_not_loaded_again_from_a_file_that_was_changed(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(policy=RestartPolicy(max_in_a_row=1))
    file = graph_file()
    graph, _ = worker.load(file, {})
    graph_file(factor=20.0)
    shed(tokens)
    with pytest.raises(Unavailable):
        call(worker, graph, BY_ACTION[Action.RELOAD])
    wait_for(worker, State.OUT_OF_SERVICE)


@pytest.mark.parametrize("command", [DIE, GARBAGE, RAISE, FORGET, BY_ACTION[Action.RESTART], BY_ACTION[Action.RELOAD]])
def test_a_run_that_fails_once_is_made_again(
    make_worker: Make, graph_file: Write, tokens: Path, log: Lines, command: int
):
    observer = Counts()
    worker = make_worker(observer=observer)
    graph, _ = worker.load(graph_file(), {})
    second, _ = worker.load(graph_file("second.json"), {})
    pid = worker_pid(worker)
    shed(tokens)
    call(worker, graph, command)
    restarted = command != BY_ACTION[Action.RELOAD]
    assert (worker.pid != pid) is restarted
    assert is_alive(pid) is not restarted
    assert observer.restarts == int(restarted)
    assert sum(observer.faults.values()) == 1
    call(worker, second)
    assert "failed" in log.text


def test_a_passing_condition_is_tried_again_in_the_same_process(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    pid = worker.pid
    shed(tokens)
    call(worker, graph, BY_ACTION[Action.RETRY])
    shed(tokens, 2)
    with pytest.raises(Unavailable, match="busy twice in a row: a tiny retry"):
        call(worker, graph, BY_ACTION[Action.RETRY])
    call(worker, graph)
    assert worker.pid == pid


@pytest.mark.parametrize("command", [DIE, RAISE, BY_ACTION[Action.RESTART]])
def test_a_second_fault_fails_the_request_and_nobody_else(
    make_worker: Make, graph_file: Write, tokens: Path, command: int
):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    shed(tokens, 2)
    with pytest.raises(Unavailable, match="the device worker restarts: "):
        call(worker, graph, command)
    wait_for(worker, State.READY)
    call(worker, graph)


def test_a_bad_request_is_told_so_and_costs_nothing(make_worker: Make, graph_file: Write, tokens: Path):
    observer = Counts()
    worker = make_worker(observer=observer)
    graph, _ = worker.load(graph_file(), {})
    pid = worker.pid
    shed(tokens)
    with pytest.raises(InvalidArgument, match=r"\Aa tiny request\Z"):
        call(worker, graph, BY_ACTION[Action.REQUEST])
    call(worker, graph)
    assert worker.pid == pid
    assert observer.restarts == 0


def test_a_hung_run_is_ended_and_not_repeated(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(limits=QUICK, repeat_within_s=0.3)
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    shed(tokens, 5)
    start = time.monotonic()
    with pytest.raises(Unavailable, match=r"did not answer run within 0\.5 s and was ended"):
        call(worker, graph, HANG)
    assert time.monotonic() - start < 2
    wait_for(worker, State.READY)
    assert not is_alive(pid)
    assert len(list(tokens.iterdir())) == 4, "it was run again"
    call(worker, graph)


def test_kill_9_in_mid_run_costs_one_repetition(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(limits=replace(QUICK, run=20))
    graph, _ = worker.load(graph_file(), {})
    shed(tokens)
    killer = threading.Timer(0.3, os.kill, (worker_pid(worker), signal.SIGKILL))
    killer.start()
    call(worker, graph, HANG)
    killer.join()


def test_while_the_worker_restarts_requests_are_answered_at_once(
    make_worker: Make, graph_file: Write, tokens: Path, tmp_path: Path
):
    gate = tmp_path / "gate"
    worker = make_worker(options={"gate": str(gate)}, repeat_within_s=0.2)
    graph, _ = worker.load(graph_file(), {})
    gate.write_text(Action.RESTART.value)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.RESTARTING)
    slowest = 0.0
    for _ in range(50):
        start = time.monotonic()
        with pytest.raises(Unavailable, match="restart"):
            call(worker, graph)
        slowest = max(slowest, time.monotonic() - start)
    assert slowest < 0.1
    gate.unlink()
    wait_for(worker, State.READY)
    call(worker, graph)


def test_a_worker_that_dies_idle_is_back_before_the_next_request(make_worker: Make, graph_file: Write, log: Lines):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while worker.pid in (pid, None) and time.monotonic() < end:
        time.sleep(0.01)
    call(worker, graph)
    assert f"worker {pid} ended" in log.text
    assert "1 graphs loaded again" in log.text


def test_a_broken_device_stays_out_of_service(make_worker: Make, graph_file: Write, tokens: Path, log: Lines):
    observer = Counts()
    worker = make_worker(observer=observer)
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    shed(tokens)
    with pytest.raises(Unavailable, match="the device is out of service: a tiny out_of_service"):
        call(worker, graph, BY_ACTION[Action.OUT_OF_SERVICE])
    for _ in range(3):
        with pytest.raises(Unavailable, match="out of service and needs a look; restart the server"):
            call(worker, graph)
        time.sleep(0.1)
    assert worker.state is State.OUT_OF_SERVICE
    assert observer.states[-1] is State.OUT_OF_SERVICE
    end = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_alive(pid)
    assert "error: ALARM tiny on cpu device 0 is out of service" in log.text


def test_restarts_that_never_help_end_out_of_service(make_worker: Make, graph_file: Write, tmp_path: Path, log: Lines):
    gate = tmp_path / "gate"
    policy = RestartPolicy(first_delays_s=(0.0, 0.01), longest_delay_s=0.05, max_in_a_row=3)
    worker = make_worker(policy, options={"gate": str(gate)})
    graph, _ = worker.load(graph_file(), {})
    gate.write_text(Action.REFUSE.value)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.OUT_OF_SERVICE)
    with pytest.raises(Unavailable, match="3 restarts in a row without a good run"):
        call(worker, graph)
    assert log.text.count("failed: the gate is shut") == 3


def test_a_poisonous_request_cannot_wear_the_device_out_twice_as_fast(
    make_worker: Make, graph_file: Write, tokens: Path
):
    policy = RestartPolicy(max_in_window=6)
    observer = Counts()
    worker = make_worker(policy, observer=observer)
    graph, _ = worker.load(graph_file(), {})
    shed(tokens, 6)
    for _ in range(5):
        with pytest.raises(Unavailable):
            call(worker, graph, DIE)
        wait_for(worker, State.READY)
        call(worker, graph)
        if not any(tokens.iterdir()):
            break
    assert observer.restarts == 6
    call(worker, graph)


def test_a_device_that_breaks_during_a_restart_is_given_up(make_worker: Make, graph_file: Write, tmp_path: Path):
    gate = tmp_path / "gate"
    worker = make_worker(options={"gate": str(gate)})
    worker.load(graph_file(), {})
    gate.write_text(Action.OUT_OF_SERVICE.value)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.OUT_OF_SERVICE)


def test_restarts_that_did_not_help_are_tried_again_now_and_then(
    make_worker: Make, graph_file: Write, tmp_path: Path, log: Lines
):
    gate = tmp_path / "gate"
    policy = RestartPolicy(first_delays_s=(0.0, 0.01), longest_delay_s=0.05, max_in_a_row=2, probe_s=0.4)
    worker = make_worker(policy, options={"gate": str(gate)}, limits=IMPATIENT)
    graph, _ = worker.load(graph_file(), {})
    gate.write_text(Action.REFUSE.value)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.OUT_OF_SERVICE)
    with pytest.raises(Unavailable, match=r"out of service and tried again every 0\.4 s \(2 restarts in a row"):
        call(worker, graph)
    time.sleep(1)
    assert worker.state is State.OUT_OF_SERVICE
    assert 3 <= log.text.count("failed: the gate is shut") <= 5
    gate.unlink()
    wait_for(worker, State.READY)
    call(worker, graph)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.RESTARTING)
    wait_for(worker, State.READY)
    call(worker, graph)


def test_a_client_that_uses_the_restarts_up_does_not_take_the_device_for_ever(
    make_worker: Make, graph_file: Write, tokens: Path, log: Lines
):
    policy = RestartPolicy(max_in_window=3, probe_s=0.4)
    observer = Counts()
    worker = make_worker(policy, limits=IMPATIENT, observer=observer)
    graph, _ = worker.load(graph_file(), {})
    shed(tokens, 100)

    def poison() -> None:
        with pytest.raises(Unavailable):
            call(worker, graph, DIE)

    poison()
    while wait_for(worker, State.READY, State.OUT_OF_SERVICE) is State.READY:
        call(worker, graph)
        poison()
    assert "3 restarts within 10 minutes" in log.text
    before = observer.restarts
    wait_for(worker, State.READY)
    call(worker, graph)
    # its budget is not given back with that: the next one costs a whole pause
    poison()
    wait_for(worker, State.OUT_OF_SERVICE)
    assert observer.restarts == before + 1
    wait_for(worker, State.READY)
    call(worker, graph)


def test_a_device_found_broken_by_an_attempt_to_get_it_back_is_given_up(
    make_worker: Make, graph_file: Write, tmp_path: Path
):
    gate = tmp_path / "gate"
    policy = RestartPolicy(first_delays_s=(0.0,), max_in_a_row=1, probe_s=0.2)
    worker = make_worker(policy, options={"gate": str(gate)}, limits=IMPATIENT)
    graph, _ = worker.load(graph_file(), {})
    gate.write_text(Action.REFUSE.value)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.OUT_OF_SERVICE)
    gate.write_text(Action.OUT_OF_SERVICE.value)
    time.sleep(1.5)
    gate.unlink()
    time.sleep(0.8)
    with pytest.raises(Unavailable, match=r"needs a look; restart the server .*the gate is shut"):
        call(worker, graph)


def test_two_refused_runs_in_a_row_start_the_worker_again(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    shed(tokens, 3)
    refused = BY_ACTION[Action.REFUSE]
    for _ in range(2):
        with pytest.raises(Unavailable, match="the device refused the run: a tiny refuse"):
            call(worker, graph, refused)
        assert worker.pid == pid
        if len(list(tokens.iterdir())) == 2:
            call(worker, graph)
    with pytest.raises(Unavailable, match="the device refused the run: a tiny refuse"):
        call(worker, graph, refused)
    wait_for(worker, State.READY)
    assert worker_pid(worker) != pid
    call(worker, graph)


def test_a_worker_that_hangs_idle_is_found_before_the_next_request(make_worker: Make, graph_file: Write, log: Lines):
    worker = make_worker(limits=IMPATIENT)
    graph, _ = worker.load(graph_file(), {})
    pid = worker_pid(worker)
    time.sleep(0.5)
    assert worker.pid == pid
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 10
    while worker.pid in (pid, None) and time.monotonic() < end:
        time.sleep(0.01)
    assert worker.pid not in (pid, None)
    assert not is_alive(pid)
    assert "did not answer ping within 0.5 s and was ended" in log.text
    call(worker, graph)


def test_a_long_run_is_not_taken_for_a_hang(make_worker: Make, graph_file: Write, tokens: Path):
    worker = make_worker(limits=replace(IMPATIENT, run=2.0), repeat_within_s=0.1)
    graph, _ = worker.load(graph_file(), {})
    shed(tokens)
    with pytest.raises(Unavailable, match="did not answer run within 2 s"):
        call(worker, graph, HANG)


def test_a_graph_that_was_replaced_on_disk_is_not_loaded_again(make_worker: Make, graph_file: Write, log: Lines):
    policy = RestartPolicy(first_delays_s=(0.0, 0.01), longest_delay_s=0.05, max_in_a_row=2)
    worker = make_worker(policy)
    graph, _ = worker.load(graph_file(), {})
    graph_file(factor=3.0)
    os.kill(worker_pid(worker), signal.SIGKILL)
    wait_for(worker, State.OUT_OF_SERVICE)
    assert "was changed after it was loaded; restart the server" in log.text
    with pytest.raises(Unavailable):
        call(worker, graph)


def test_a_refused_load_names_the_file_and_leaves_the_others_alone(
    make_worker: Make, graph_file: Write, tmp_path: Path
):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    with pytest.raises(ConfigError) as caught:
        worker.load(graph_file("bad.json", refuse="built for Ascend910B, this is Ascend310P3"), {})
    assert caught.value.message == (
        f"{tmp_path / 'bad.json'}: built for Ascend910B, this is Ascend310P3 (tiny.load: 500002 TINY; EE1001)"
    )
    with pytest.raises(ConfigError, match=r"missing\.json: cannot be read: No such file"):
        worker.load(tmp_path / "missing.json", {})
    call(worker, graph)


def test_a_file_that_kills_the_worker_is_refused_and_the_others_go_on(make_worker: Make, graph_file: Write):
    worker = make_worker()
    graph, _ = worker.load(graph_file(), {})
    with pytest.raises(Unavailable, match=r"deadly\.json: the device worker was ended by SIGKILL"):
        worker.load(graph_file("deadly.json", deadly=True), {})
    wait_for(worker, State.READY)
    call(worker, graph)


def test_a_device_that_cannot_be_opened_refuses_the_load_and_can_be_tried_again(
    make_worker: Make, graph_file: Write, tmp_path: Path
):
    gate = tmp_path / "gate"
    gate.write_text(Action.REFUSE.value)
    worker = make_worker(options={"gate": str(gate)})
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"the gate is shut \(tiny\.open: 507033\)"):
            worker.load(graph_file(), {})
    gate.unlink()
    graph, _ = worker.load(graph_file(), {})
    call(worker, graph)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"python": "/nowhere/python3"}, "/nowhere/python3 cannot be started: No such file"),
        ({"python": "/bin/false"}, "the device worker ended with status 1"),
        ({"packages": {}}, "the runtime 'tiny' cannot be used by .*: No module named 'tiny_runtime'"),
    ],
)
def test_a_worker_that_cannot_work_says_why(make_worker: Make, graph_file: Write, changes: Any, says: str):
    with pytest.raises(ConfigError, match=says):
        make_worker(**changes).load(graph_file(), {})


def test_a_worker_that_says_nothing_is_given_up(make_worker: Make, graph_file: Write, tmp_path: Path):
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\necho nothing to say\nexec sleep 60\n")
    sleeper.chmod(0o755)
    worker = make_worker(python=str(sleeper), limits=replace(QUICK, start=0.5))
    with pytest.raises(ConfigError, match=r"did not start: no answer within 0\.5 s"):
        worker.load(graph_file(), {})


def test_a_python_that_is_too_old_says_so(make_worker: Make, graph_file: Write, tmp_path: Path):
    old = tmp_path / "python"
    command = "import sys; sys.stderr.write('the device worker needs Python 3.10 or later\\n'); sys.exit(3)"
    old.write_text(f'#!/bin/sh\nexec {tiny_settings().python} -c "{command}"\n')
    old.chmod(0o755)
    with pytest.raises(ConfigError, match=r"status 3; its last words: .*needs Python 3\.10 or later"):
        make_worker(python=str(old)).load(graph_file(), {})


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


def test_a_fault_closes_the_old_process_before_the_new_one_opens_the_device(
    make_worker: Make, graph_file: Write, tokens: Path, tmp_path: Path
):
    life = tmp_path / "life"
    worker = make_worker(options={"life_log": str(life)})
    graph, _ = worker.load(graph_file(), {})
    shed(tokens)
    call(worker, graph, BY_ACTION[Action.RESTART])
    assert [line.split()[0] for line in life.read_text().splitlines()] == ["open", "load", "close", "open", "load"]


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
