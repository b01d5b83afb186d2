from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.supervisor.conftest import wait_until
from voxrepo.supervisor import stub_watch
from voxrepo.supervisor.stub_watch import (
    STUB_NAME,
    Stub,
    StubRegister,
    StubWatch,
    cause_of_end,
    kill,
    model_of,
    region_of,
)

WATCHED = {"joe.vocoder", "joe.acoustic"}


def words(instance: str) -> list[str]:
    """A stub's command line as Triton's Python backend writes it."""
    return [
        f"/run/x/backends/python/{STUB_NAME}",
        "/run/x/model_repository/joe.vocoder/1/model.py",
        "voxrepo-x-1234",
        "1048576",
        "1048576",
        "4711",
        "/run/x/backends/python",
        "336",
        instance,
        "/run/x/backends/ascend_om",
    ]


@pytest.mark.parametrize(
    ("instance", "model"),
    [("joe.vocoder_0_1", "joe.vocoder"), ("a_1_0_12", "a_1"), ("x", None), ("x_0", None), ("", None)],
)
def test_the_command_line_names_the_model(instance: str, model: str | None) -> None:
    assert model_of(words(instance)) == model
    assert region_of(words(instance)) == (None if model is None else "voxrepo-x-1234")


@pytest.mark.parametrize("line", [[], ["/bin/sh", "-c", "x"], ["tritonserver", *words("a_0_0")[1:]]])
def test_other_processes_are_no_stubs(line: list[str]) -> None:
    assert model_of(line) is None


def stub(pid: int, model: str = "joe.vocoder", *, ended: bool = False, started_at: float = 0.0) -> Stub:
    return Stub(pid, started_at, model, ended)


def test_a_zombie_is_told_once() -> None:
    register = StubRegister()
    assert register.observe([stub(1), stub(2)], WATCHED) == []
    assert register.observe([stub(1, ended=True), stub(2)], WATCHED) == [stub(1)]
    assert register.observe([stub(1, ended=True), stub(2)], WATCHED) == []


def test_a_stub_that_is_gone_has_died() -> None:
    register = StubRegister()
    register.observe([stub(1)], WATCHED)
    assert register.observe([], WATCHED) == [stub(1)]


def test_a_process_with_the_same_id_is_another_one() -> None:
    register = StubRegister()
    register.observe([stub(1)], WATCHED)
    assert register.observe([stub(1, started_at=5.0)], WATCHED) == [stub(1)]
    assert register.observe([stub(1, started_at=5.0)], WATCHED) == []


def test_a_stub_that_was_never_seen_alive_is_not_told() -> None:
    assert StubRegister().observe([stub(1, ended=True)], WATCHED) == []


def test_stubs_of_other_models_are_not_watched() -> None:
    register = StubRegister()
    register.observe([stub(1, "callable")], WATCHED)
    assert register.observe([], WATCHED) == []


def test_the_end_of_a_retired_stub_is_no_death_and_that_of_its_successor_is() -> None:
    register = StubRegister()
    register.observe([stub(1), stub(2, "joe.acoustic")], WATCHED)
    assert register.retire({"joe.vocoder"}) == [stub(1)]
    both = [stub(1), stub(2, "joe.acoustic"), stub(3)]
    assert register.observe(both, WATCHED) == []
    assert register.observe([stub(2, "joe.acoustic"), stub(3)], WATCHED) == []
    assert register.observe([stub(2, "joe.acoustic"), stub(3, ended=True)], WATCHED) == [stub(3)]


def of_instance(pid: int, started_at: float, *, ended: bool = False, instance: str = "joe.vocoder_0_0") -> Stub:
    return Stub(pid, started_at, "joe.vocoder", ended, instance)


def test_a_stub_that_the_engine_has_replaced_has_not_died() -> None:
    register = StubRegister()
    register.observe([of_instance(1, 1.0)], WATCHED)
    assert register.observe([of_instance(1, 1.0), of_instance(2, 2.0)], WATCHED) == []
    assert register.observe([of_instance(1, 1.0, ended=True), of_instance(2, 2.0)], WATCHED) == []
    assert register.observe([of_instance(2, 2.0, ended=True)], WATCHED) == [of_instance(2, 2.0)]


def test_a_stub_of_another_version_replaces_none() -> None:
    first, second = replace(of_instance(1, 1.0), version=1), replace(of_instance(2, 2.0), version=2)
    register = StubRegister()
    register.observe([first, second], WATCHED)
    assert register.observe([second], WATCHED) == [first]


def test_the_end_of_a_version_that_is_unloaded_is_expected() -> None:
    first, second = replace(of_instance(1, 1.0), version=1), replace(of_instance(2, 2.0), version=2)
    register = StubRegister()
    register.observe([first, second], WATCHED)
    assert register.retire(["joe.vocoder"], [2]) == [second]
    assert register.observe([first], WATCHED) == []
    assert register.observe([], WATCHED) == [first]


def test_a_stub_that_says_late_what_it_is_is_known_by_its_end() -> None:
    stub = of_instance(1, 1.0)
    register = StubRegister()
    register.observe([stub], WATCHED)
    (ended,) = register.observe([replace(stub, version=3, has_ended=True)], WATCHED)
    assert ended.version == 3


@pytest.mark.usefixtures("any_child_is_a_stub")
def test_tells_the_version_of_a_stub_and_how_it_ended(
    engine: Callable[[], subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = engine()
    child = start_child(process)
    watch = StubWatch(process.pid, tmp_path)
    watch.look(WATCHED, 0.0)
    (tmp_path / f"{child.pid}.json").write_text('{"model": "joe.vocoder", "version": 2}', encoding="ascii")
    watch.look(WATCHED, 0.1)
    assert watch.held_bytes("joe.vocoder", 2) > 0
    assert watch.held_bytes("joe.vocoder", 1) == 0
    child.kill()
    wait_until(lambda: child.status() == psutil.STATUS_ZOMBIE)
    (ended,) = watch.look(WATCHED, 0.2)
    assert (ended.version, cause_of_end(ended)) == (2, "signal 9")


@pytest.mark.parametrize(
    "other",
    [
        of_instance(2, 0.5),
        of_instance(2, 2.0, ended=True),
        of_instance(2, 2.0, instance="joe.vocoder_0_1"),
    ],
    ids=["older", "dead too", "another instance"],
)
def test_other_stubs_replace_none(other: Stub) -> None:
    register = StubRegister()
    register.observe([of_instance(1, 1.0)], WATCHED)
    assert register.observe([of_instance(1, 1.0, ended=True), other], WATCHED) == [of_instance(1, 1.0)]


@pytest.mark.usefixtures("any_child_is_a_stub")
def test_a_successor_is_looked_for_before_a_death_is_told(
    engine: Callable[[], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stub_watch, "instance_of", lambda words: "joe.vocoder_0_0")
    process = engine()
    victim = start_child(process)
    watch = StubWatch(process.pid)
    watch.look(WATCHED, 0.0)
    wait_until(lambda: time.time() > victim.create_time() + 0.1)  # ages of processes are told in hundredths
    start_child(process)
    victim.kill()
    wait_until(lambda: victim.status() == psutil.STATUS_ZOMBIE)
    assert watch.look(WATCHED, 0.1) == []


@pytest.fixture
def engine() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts a process that starts a child, and says its id, for each line that it is told."""
    code = (
        "import subprocess, sys\n"
        "for line in sys.stdin:\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "    print(child.pid, flush=True)\n"
    )
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        for child in psutil.Process(process.pid).children() if process.poll() is None else []:
            child.kill()
        process.kill()
        process.communicate()


def start_child(engine: subprocess.Popen[str]) -> psutil.Process:
    assert engine.stdin is not None and engine.stdout is not None
    engine.stdin.write("one\n")
    engine.stdin.flush()
    child = psutil.Process(int(engine.stdout.readline()))
    wait_until(child.cmdline)  # empty for a moment after the exec
    return child


@pytest.fixture
def any_child_is_a_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stub_watch, "model_of", lambda words: "joe.vocoder" if words else None)


@pytest.mark.usefixtures("any_child_is_a_stub")
def test_a_child_that_is_killed_is_noticed(engine: Callable[[], subprocess.Popen[str]]) -> None:
    process = engine()
    victim, _ = start_child(process), start_child(process)
    watch = StubWatch(process.pid)
    assert watch.look(WATCHED, 0.0) == []
    victim.kill()
    seen: list[Stub] = []

    def look() -> list[Stub]:
        seen.extend(watch.look(WATCHED, 0.1))
        return seen

    wait_until(look)
    assert [stub.pid for stub in seen] == [victim.pid]
    assert watch.look(WATCHED, 0.2) == []


@pytest.mark.usefixtures("any_child_is_a_stub")
def test_a_new_child_is_found_by_a_search(engine: Callable[[], subprocess.Popen[str]]) -> None:
    process = engine()
    watch = StubWatch(process.pid)
    watch.look(WATCHED, 0.0)
    child = start_child(process)
    watch.look(WATCHED, 0.1)
    assert watch.register.retire(WATCHED) == []
    watch.look(WATCHED, 0.2, search=True)
    (found,) = watch.register.retire(WATCHED)
    assert kill([found]) == [found]
    wait_until(lambda: child.status() == psutil.STATUS_ZOMBIE)
    assert kill([found]) == []


def test_an_engine_that_has_ended_has_no_dead_stubs(engine: Callable[[], subprocess.Popen[str]]) -> None:
    process = engine()
    watch = StubWatch(process.pid)
    process.kill()
    process.communicate()
    assert watch.look(WATCHED, 0.0) == []


@pytest.mark.usefixtures("any_child_is_a_stub")
def test_a_child_that_stays_stopped_is_ended(engine: Callable[[], subprocess.Popen[str]]) -> None:
    process = engine()
    victim, other = start_child(process), start_child(process)
    watch = StubWatch(process.pid)
    watch.look(WATCHED, 0.0)
    victim.suspend()
    wait_until(lambda: victim.status() == psutil.STATUS_STOPPED)
    watch.look(WATCHED, 1.0)
    watch.look(WATCHED, 1.0 + stub_watch.STOPPED_LIMIT_S - 0.1)
    assert victim.status() == psutil.STATUS_STOPPED
    watch.look(WATCHED, 1.0 + stub_watch.STOPPED_LIMIT_S)
    wait_until(lambda: victim.status() == psutil.STATUS_ZOMBIE)
    assert [stub.pid for stub in watch.look(WATCHED, 7.0)] == [victim.pid]
    assert other.is_running()


@pytest.mark.usefixtures("any_child_is_a_stub")
def test_a_child_that_goes_on_in_time_is_left_alone(engine: Callable[[], subprocess.Popen[str]]) -> None:
    process = engine()
    child = start_child(process)
    watch = StubWatch(process.pid)
    watch.look(WATCHED, 0.0)
    for start_s in (1.0, 20.0):
        child.suspend()
        wait_until(lambda: child.status() == psutil.STATUS_STOPPED)
        watch.look(WATCHED, start_s)
        watch.look(WATCHED, start_s + stub_watch.STOPPED_LIMIT_S - 0.1)
        child.resume()
        wait_until(lambda: child.status() != psutil.STATUS_STOPPED)
        assert watch.look(WATCHED, start_s + stub_watch.STOPPED_LIMIT_S + 1) == []
    assert child.is_running()
