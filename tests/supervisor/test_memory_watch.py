from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from voxrepo.supervisor import memory_watch
from voxrepo.supervisor.memory_watch import LEAST_LIFE_S, MemoryPolicy, available_bytes, default_limit_bytes, held_bytes

MIB = 2**20


def started(limit_mib: int, at_start_mib: int = 100, now_s: float = 0.0) -> MemoryPolicy:
    policy = MemoryPolicy(limit_mib * MIB)
    policy.engine_started(now_s)
    assert not policy.exceeds(at_start_mib * MIB, now_s)
    return policy


def test_below_the_limit_nothing_happens() -> None:
    assert not started(200).exceeds(200 * MIB, 5.0)


def test_above_the_limit_the_engine_is_started_afresh() -> None:
    assert started(200).exceeds(201 * MIB, 5.0)


def test_without_a_limit_it_may_grow() -> None:
    assert not started(0).exceeds(2**50, 5.0)


def test_fresh_starts_are_at_least_some_minutes_apart() -> None:
    policy = started(200)
    assert policy.exceeds(201 * MIB, 5.0)
    policy.engine_started(10.0)
    assert not policy.exceeds(100 * MIB, 10.0)
    assert not policy.exceeds(300 * MIB, 5.0 + LEAST_LIFE_S - 1)
    assert policy.exceeds(300 * MIB, 5.0 + LEAST_LIFE_S)


def test_a_limit_that_the_models_alone_reach_is_no_reason_for_fresh_starts() -> None:
    policy = started(200, at_start_mib=190)
    assert policy.limit_is_too_low
    assert not policy.exceeds(500 * MIB, 5.0)


def test_the_limit_is_judged_anew_for_each_engine() -> None:
    policy = started(200, at_start_mib=190)
    policy.engine_started(10.0)
    assert not policy.limit_is_too_low
    assert not policy.exceeds(100 * MIB, 10.0)
    assert policy.exceeds(201 * MIB, 15.0)


def test_the_memory_of_children_counts() -> None:
    code = "import subprocess, sys; {}; print(flush=True); input()"
    grown = "x = b'x' * (64 << 20)"
    child = f"p = subprocess.Popen([sys.executable, '-c', {code.format(grown)!r}], stdin=0, stdout=1)"
    sizes = []
    for what in ("pass", child):
        process = subprocess.Popen(
            [sys.executable, "-c", code.format(what)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(1 if what == "pass" else 2):
            process.stdout.readline()
        sizes.append(held_bytes(process.pid))
        for one in psutil.Process(process.pid).children():
            one.kill()
        process.kill()
        process.communicate()
    assert sizes[1] - sizes[0] > 60 * MIB


def test_a_process_that_has_ended_holds_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert held_bytes(process.pid) == 0


def test_the_limit_of_a_container_counts(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory.max"  # type: ignore[operator]
    file.write_text("1073741824\n")
    monkeypatch.setattr(memory_watch, "_CGROUP_LIMITS", (str(file), "/nowhere"))
    assert available_bytes() == 2**30
    assert default_limit_bytes() == pytest.approx(0.8 * 2**30, abs=1)
    file.write_text("max\n")
    assert available_bytes() == psutil.virtual_memory().total
