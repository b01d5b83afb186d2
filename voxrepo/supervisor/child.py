"""A child process with a log file and an orderly way to stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from voxrepo.supervisor import launch

KILL_WAIT_S = 5.0
LOG_TAIL_BYTES = 4096


class Child:
    """A running child. Must be started from the main thread: the kernel ends it with the thread that started it.

    Args:
        name: for messages.
        command: program and arguments.
        log_file: takes its output, appended.
        environment: of the child; this process's own if not given.
    """

    def __init__(
        self, name: str, command: Sequence[str], log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log_file = log_file
        self._was_asked_to_end = False
        log_file.parent.mkdir(parents=True, exist_ok=True)
        self._log_start_bytes = log_file.stat().st_size if log_file.exists() else 0
        wrapped = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *command]
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                wrapped,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=None if environment is None else dict(environment),
                # a terminal's Ctrl-C reaches the supervisor only, which stops its children in order
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; ``None`` while it runs."""
        return self._process.poll()

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.exit_code is None

    def ask_to_end(self) -> None:
        """Send SIGTERM, once: a second one could meet a child whose handler has already gone, and kill it."""
        if self.is_running() and not self._was_asked_to_end:
            self._was_asked_to_end = True
            self._process.terminate()

    def stop(self, timeout_s: float) -> bool:
        """Ask it to end, wait, then kill its whole process group.

        Returns:
            whether it ended in order, with exit code 0, or had ended before.
        """
        if not self.is_running() and not self._was_asked_to_end:
            self.kill()
            return True
        self.ask_to_end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        code = self.exit_code
        self.kill()
        return code == 0

    def kill(self) -> None:
        """Kill its process group and reap it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # uninterruptible in the kernel
            self._process.wait(KILL_WAIT_S)

    def last_words(self) -> str:
        """Last non-empty line that this child wrote to its log."""
        try:
            with self.log_file.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._log_start_bytes, end - LOG_TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""


class Backoff:
    """Waiting times between restarts: doubled after each failure, forgotten after a while without one.

    Args:
        first_s: after the first failure.
        most_s: upper bound.
        calm_s: time without a failure after which the count starts anew.
    """

    def __init__(self, first_s: float = 0.5, most_s: float = 30.0, calm_s: float = 60.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._calm_s = calm_s
        self._failures = 0
        self._last = float("-inf")

    def next_wait_s(self, now: float | None = None) -> float:
        """Record a failure and return how long to wait before the restart."""
        now = time.monotonic() if now is None else now
        if now - self._last > self._calm_s:
            self._failures = 0
        self._last = now
        wait_s = min(self._most_s, self._first_s * 2.0**self._failures)
        self._failures = min(self._failures + 1, 16)
        return wait_s
