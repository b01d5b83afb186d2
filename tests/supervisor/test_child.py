"""Real processes: what happens to a child when its parent stops it, or is killed itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from voxrepo.supervisor import launch
from voxrepo.supervisor.child import Backoff, Child

from .conftest import wait_until

StartChild = Callable[..., Child]

IDLE = "import time; print('up', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
POLITE = """
import signal, sys, time
def leave(number, frame):
    print('leaving', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print('up', flush=True)
time.sleep(60)
"""
WITH_CHILD = """
import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
print(grandchild.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartChild]:
    """Starts a Python program as a child and waits for its first line."""
    children: list[Child] = []

    def start(code: str, *, wait: bool = True, environment: dict[str, str] | None = None) -> Child:
        log_file = tmp_path / "logs" / "child.log"
        before = log_file.stat().st_size if log_file.exists() else 0
        child = Child("test", [sys.executable, "-c", code], log_file, environment)
        children.append(child)
        if wait:
            wait_until(lambda: log_file.stat().st_size > before)
        return child

    yield start
    for child in children:
        child.kill()


def test_a_child_that_leaves_when_asked_is_not_killed(start: StartChild):
    child = start(POLITE)
    assert child.is_running()
    assert child.exit_code is None
    assert child.stop(10) is True
    assert child.exit_code == 0
    assert child.last_words() == "leaving"


def test_a_child_that_ends_with_an_error_when_asked_is_told_apart(start: StartChild):
    child = start(POLITE.replace("sys.exit(0)", "sys.exit(1)"))
    assert child.stop(10) is False
    assert child.exit_code == 1


def test_a_child_that_ignores_the_request_is_killed_after_the_time_given(start: StartChild):
    child = start(DEAF)
    begin = time.monotonic()
    assert child.stop(0.3) is False
    assert 0.3 <= time.monotonic() - begin < 5
    assert child.exit_code == -signal.SIGKILL
    assert not psutil.pid_exists(child.pid)


def test_stopping_takes_the_childs_own_children_along(start: StartChild):
    child = start(WITH_CHILD)
    grandchild = int(child.last_words())
    assert psutil.pid_exists(grandchild)
    child.stop(10)
    wait_until(lambda: not is_alive(grandchild))


def test_stopping_a_child_that_has_ended_is_clean(start: StartChild):
    child = start("print('done', flush=True); raise SystemExit(3)")
    wait_until(lambda: not child.is_running())
    assert child.stop(1) is True
    assert child.exit_code == 3
    child.kill()


def test_a_program_that_cannot_be_started_ends_with_words(tmp_path: Path):
    child = Child("test", ["/nowhere/program"], tmp_path / "child.log")
    wait_until(lambda: not child.is_running())
    assert child.exit_code != 0
    assert "No such file or directory" in child.last_words()


def test_output_is_appended_and_only_this_runs_words_are_quoted(start: StartChild, tmp_path: Path):
    wait_until(lambda: not start("print('first')").is_running())
    second = start("raise SystemExit(1)", wait=False)
    wait_until(lambda: not second.is_running())
    assert second.last_words() == ""
    assert "first" in second.log_file.read_text(encoding="utf-8")


def test_last_words_survive_a_log_of_any_content(start: StartChild):
    child = start("import sys; sys.stdout.buffer.write(b'x' * 100_000 + b'\\xff\\nlast \\xff words\\n\\n')")
    wait_until(lambda: not child.is_running())
    assert child.last_words() == "last \ufffd words"


def test_a_lost_log_is_no_reason_to_fail(start: StartChild):
    child = start(IDLE)
    child.log_file.unlink()
    assert child.last_words() == ""


def test_a_child_gets_the_environment_given(start: StartChild):
    child = start("import os; print(sorted(os.environ.get(n, '-') for n in ('A', 'HOME')))", environment={"A": "b"})
    wait_until(lambda: not child.is_running())
    assert child.last_words() == "['-', 'b']"


def test_a_child_leads_a_session_of_its_own(start: StartChild):
    child = start(IDLE)
    assert os.getsid(child.pid) == child.pid
    assert os.getsid(child.pid) != os.getsid(0)


PARENT = """
import sys, time
from pathlib import Path
from voxrepo.supervisor.child import Child
child = Child("test", [sys.executable, "-c", {code!r}], Path({log!r}))
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("code", [IDLE, DEAF])
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path, code: str):
    log_file = tmp_path / "child.log"
    program = PARENT.format(code=code, log=str(log_file))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: log_file.stat().st_size > 0)
        assert is_alive(child)
        parent.kill()
    wait_until(lambda: not is_alive(child))


def test_a_child_whose_parent_is_gone_before_it_starts_does_not_run(tmp_path: Path):
    trace = tmp_path / "trace"
    nobody = 2**22 - 1  # above any process id in use here
    result = subprocess.run(
        [sys.executable, "-I", "-S", launch.__file__, str(nobody), "/usr/bin/touch", str(trace)],
        check=False,
        timeout=30,
    )
    assert result.returncode == 1
    assert not trace.exists()


def test_launching_passes_arguments_unchanged():
    words = ["a b", "'quoted'", "$HOME", "", "\u00fc"]
    code = "import sys; print(sys.argv[1:])"
    result = subprocess.run(
        [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert result.stdout.strip() == str(words)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_waiting_doubles_up_to_a_bound():
    backoff = Backoff(first_s=0.5, most_s=8.0, calm_s=60.0)
    assert [backoff.next_wait_s(now=float(second)) for second in range(7)] == [0.5, 1, 2, 4, 8, 8, 8]


def test_a_calm_time_makes_waiting_short_again():
    backoff = Backoff(first_s=0.5, most_s=8.0, calm_s=60.0)
    assert [backoff.next_wait_s(now=now) for now in (0.0, 1.0, 61.0, 121.5)] == [0.5, 1.0, 2.0, 0.5]


def test_waiting_stays_bounded_for_ever():
    backoff = Backoff()
    assert max(backoff.next_wait_s(now=float(number)) for number in range(5000)) == 30.0
