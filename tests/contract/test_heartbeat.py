from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import pytest

from voxrepo_contract.environment import STUB_PATIENCE_S
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.heartbeat import EXIT_CODE, TICK_S, Heartbeat


@dataclass
class Clocks:
    """Two clocks that only move when told to."""

    boot: float = 1000.0
    wall: float = 1.7e9

    def heartbeat(self, patience_s: float = 5.0) -> Heartbeat:
        return Heartbeat(patience_s, lambda: self.boot, lambda: self.wall)

    def pass_(self, boot_s: float, wall_s: float | None = None) -> None:
        self.boot += boot_s
        self.wall += boot_s if wall_s is None else wall_s


def beat(clocks: Clocks, heartbeat: Heartbeat, seconds: float) -> None:
    for _ in range(round(seconds / TICK_S)):
        clocks.pass_(TICK_S)
        heartbeat.tick()


def test_a_process_that_runs_is_not_given_up_however_long_its_work_takes():
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    mark = heartbeat.mark()
    beat(clocks, heartbeat, 600)
    assert not heartbeat.may_be_given_up(mark)


@pytest.mark.parametrize(("gap_s", "is_long"), [(0.5, False), (4.4, False), (4.5, True), (6.5, True), (3600.0, True)])
@pytest.mark.parametrize("has_ticked", [True, False])
def test_a_gap_counts_from_half_a_second_below_the_patience(gap_s: float, is_long: bool, has_ticked: bool):
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    mark = heartbeat.mark()
    clocks.pass_(gap_s)
    if has_ticked:
        heartbeat.tick()
    assert heartbeat.may_be_given_up(mark) is is_long


def test_a_gap_is_remembered_until_the_work_is_done():
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    beat(clocks, heartbeat, 1)
    mark = heartbeat.mark()
    clocks.pass_(5)
    heartbeat.tick()
    beat(clocks, heartbeat, 60)
    assert heartbeat.may_be_given_up(mark)
    assert not heartbeat.may_be_given_up(heartbeat.mark())


@pytest.mark.parametrize("has_ticked", [True, False])
def test_work_that_was_begun_right_after_a_gap_may_have_waited_for_its_end(has_ticked: bool):
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    clocks.pass_(6)
    if has_ticked:
        heartbeat.tick()
    clocks.pass_(0.01)
    mark = heartbeat.mark()
    heartbeat.tick()
    assert heartbeat.may_be_given_up(mark)


@pytest.mark.parametrize(("boot_s", "wall_s"), [(6.0, 0.1), (0.1, 6.0), (6.0, -7200.0)])
def test_a_gap_of_either_clock_counts(boot_s: float, wall_s: float):
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    mark = heartbeat.mark()
    clocks.pass_(boot_s, wall_s)
    heartbeat.tick()
    assert heartbeat.may_be_given_up(mark)


def test_a_clock_that_was_set_back_alone_is_no_gap():
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    mark = heartbeat.mark()
    clocks.pass_(0.2, -7200.0)
    beat(clocks, heartbeat, 5)
    assert not heartbeat.may_be_given_up(mark)


def test_what_was_before_the_start_is_not_held_against_later_work():
    clocks = Clocks()
    heartbeat = clocks.heartbeat()
    clocks.pass_(30)
    heartbeat.start()
    try:
        assert not heartbeat.may_be_given_up(heartbeat.mark())
    finally:
        heartbeat.close()


def test_the_thread_beats_until_it_is_closed():
    heartbeat = Heartbeat(1.0)
    before = threading.active_count()
    heartbeat.start()
    assert threading.active_count() == before + 1
    heartbeat.close()
    assert threading.active_count() == before
    heartbeat.close()


def test_where_the_patience_is_not_said_nothing_is_watched():
    before = threading.active_count()
    heartbeat = Heartbeat.of_environment({}).start()
    assert threading.active_count() == before
    mark = heartbeat.mark()
    assert not heartbeat.may_be_given_up(mark - 1e6)
    heartbeat.close()


def test_the_patience_comes_from_the_environment():
    assert Heartbeat.of_environment({STUB_PATIENCE_S: "5"}).patience_s == 5.0


@pytest.mark.parametrize("text", ["", "five", "nan", "0.5", "-1"])
def test_a_patience_without_sense_is_refused(text: str):
    with pytest.raises(ConfigError, match=f"{STUB_PATIENCE_S} is '{text}'; it must be a number of seconds above 0.5"):
        Heartbeat.of_environment({STUB_PATIENCE_S: text})


PROGRAM = """
import sys
from voxrepo_contract.heartbeat import Heartbeat
heartbeat = Heartbeat.of_environment().start()
mark = heartbeat.mark()
print("begun", flush=True)
sys.stdin.readline()
heartbeat.leave_if_given_up(mark, "en-joe.vocoder_0")
print("answered", flush=True)
"""


@pytest.mark.parametrize(("stopped_s", "is_given_up"), [(0.0, False), (1.2, True)])
def test_a_process_that_was_stopped_for_too_long_ends_without_an_answer(stopped_s: float, is_given_up: bool):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, STUB_PATIENCE_S: "1.5"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    if stopped_s:
        process.send_signal(signal.SIGSTOP)
        time.sleep(stopped_s)
        process.send_signal(signal.SIGCONT)
    said, log = process.communicate("\n", timeout=20)
    assert process.returncode == (EXIT_CODE if is_given_up else 0)
    assert said == ("" if is_given_up else "answered\n")
    assert ("en-joe.vocoder_0: this process was kept from running for 1." in log) is is_given_up
    assert log.count("\n") == int(is_given_up)
