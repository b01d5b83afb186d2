"""Whether the engine may have taken this stub for dead, in which case it must not answer any more.

The engine gives a stub up when neither its answer nor its sign of life comes for a while, fails the batch and turns to
the next one. A stub that was only kept from running does not learn of it: its late answer meets an engine that has
forgotten the request and crashes, or becomes the answer to the next request, and one caller hears another's text. So a
stub watches how long it was kept from running, and ends instead of answering late: the engine then sees what it
believed, a dead stub, and the supervisor loads the model again.

This guards what a stub does once it has its request. One that was kept from running before it read it finds memory that
the engine has freed, and may crash before any Python runs; only an engine that does not give it up helps there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from voxrepo_contract.environment import STUB_PATIENCE_S
from voxrepo_contract.errors import ConfigError

TICK_S = 0.2
MARGIN_S = 0.5
"""Below the engine's patience: its clock started up to 0.3 s before the gap (the time between two signs of life), and
the answer must have left before it runs out."""
EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h."""


def boot_s() -> float:
    """Seconds since the machine started, also those in which it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Heartbeat:
    """A thread that notes when this process was kept from running for as long as the engine would wait.

    A gap counts by whichever clock saw more of it: the engine waits by the time of day, which may jump. A call that
    keeps Python's lock for that long looks like a gap and counts as one; nothing that serves a request does.

    Args:
        patience_s: seconds without a sign of life after which the engine gives a stub up; infinite for an engine that
            does not.
        boot_s: a clock that runs on while the machine sleeps.
        wall_s: the time of day.
    """

    def __init__(
        self, patience_s: float, boot_s: Callable[[], float] = boot_s, wall_s: Callable[[], float] = time.time
    ) -> None:
        self.patience_s = patience_s
        self._boot_s = boot_s
        self._wall_s = wall_s
        self._last = (boot_s(), wall_s())
        self._gap_ended_s: float | None = None
        self._gap_s = 0.0
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    @staticmethod
    def of_environment(environment: Mapping[str, str] = os.environ) -> Heartbeat:
        """For the engine that started this process; where its patience is not said, it is taken to be endless.

        Raises:
            ConfigError: the variable is no positive number.
        """
        text = environment.get(STUB_PATIENCE_S, "inf")
        try:
            patience_s = float(text)
        except ValueError:
            patience_s = 0.0
        if not patience_s > MARGIN_S:
            raise ConfigError(f"{STUB_PATIENCE_S} is {text!r}; it must be a number of seconds above {MARGIN_S:g}")
        return Heartbeat(patience_s)

    def start(self) -> Heartbeat:
        """Begin to watch. What happened before, such as loading, is not held against later answers."""
        self._last = (self._boot_s(), self._wall_s())
        if self.patience_s < float("inf"):
            self._thread.start()
        return self

    def close(self) -> None:
        """End the thread."""
        self._is_closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def tick(self) -> None:
        """Note a sign of life, and how long it took to come."""
        # the clocks are read once: a gap between here and the end is seen by the next tick
        now = (self._boot_s(), self._wall_s())
        gap_s = _gap_s(self._last, now)
        if self._is_long(gap_s):
            self._gap_s = gap_s
            self._gap_ended_s = now[0]
        self._last = now

    def mark(self) -> float:
        """The present moment, for :meth:`may_be_given_up`."""
        return self._boot_s()

    def may_be_given_up(self, mark: float) -> bool:
        """Whether the engine may have lost patience with work that was begun at ``mark``.

        What was begun right after a gap may have been waiting for its end, and counts.
        """
        # in this order, as the thread notes a gap before it says that it is over
        if self._is_long(self._since_last_s()):
            return True
        return self._gap_ended_s is not None and self._gap_ended_s >= mark - self.patience_s

    def leave_if_given_up(self, mark: float, name: str) -> None:
        """End this process at once, if work begun at ``mark`` must not be answered any more.

        Args:
            mark: of the work.
            name: of the stub, for the log.
        """
        if self.may_be_given_up(mark):
            self._leave(name)

    def _leave(self, name: str) -> NoReturn:
        gap_s = max(self._gap_s, self._since_last_s())
        line = (
            f"{name}: this process was kept from running for {gap_s:.1f} s, and the engine, which waits for "
            f"{self.patience_s:g} s, may have given it up; it ends rather than answer too late\n"
        )
        try:
            # the stub's standard error is the engine's, and so is its log; no call to the engine, which may block
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line.encode("ascii", "backslashreplace"))
        finally:
            os._exit(EXIT_CODE)

    def _since_last_s(self) -> float:
        return _gap_s(self._last, (self._boot_s(), self._wall_s()))

    def _is_long(self, gap_s: float) -> bool:
        return gap_s >= self.patience_s - MARGIN_S

    def _beat(self) -> None:
        while not self._is_closed.wait(TICK_S):
            self.tick()


def _gap_s(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Seconds between two readings of both clocks, by the one that went further."""
    return max(after[0] - before[0], after[1] - before[1])
