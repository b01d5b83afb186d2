"""The stub's side against real worker processes that fail in every way."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from om_backend.device.faults import Action
from om_backend.device.observer import State
from om_backend.device.policy import RestartPolicy

from voxrepo_contract.errors import InvalidArgument, Unavailable

from .client_calls import IMPATIENT, QUICK, Counts, Make, Write, call, wait_for, worker_pid
from .conftest import Lines, is_alive, shed
from .tiny_runtime import BY_ACTION, DIE, FORGET, GARBAGE, HANG, RAISE


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


def test_a_fault_closes_the_old_process_before_the_new_one_opens_the_device(
    make_worker: Make, graph_file: Write, tokens: Path, tmp_path: Path
):
    life = tmp_path / "life"
    worker = make_worker(options={"life_log": str(life)})
    graph, _ = worker.load(graph_file(), {})
    shed(tokens)
    call(worker, graph, BY_ACTION[Action.RESTART])
    assert [line.split()[0] for line in life.read_text().splitlines()] == ["open", "load", "close", "open", "load"]
