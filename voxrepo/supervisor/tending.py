"""Keeping a child alive: noticing its end, and starting it again with growing pauses.

Nothing here waits, so that several children are tended in one loop: a child that cannot start does not keep another
from being restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from voxrepo.supervisor.child import Backoff, Child
from voxrepo_contract.errors import VoxrepoError

log = logging.getLogger(__name__)


class Tending:
    """Tends one child.

    Args:
        name: for messages.
        current: the child as it is now, ``None`` before its first start.
        died: called once when its end is noticed.
        start: starts it anew; raises :class:`VoxrepoError` if that fails.
        backoff: pauses between attempts.

    Attributes:
        restarts: how often it was started again.
    """

    def __init__(
        self,
        name: str,
        current: Callable[[], Child | None],
        died: Callable[[], None],
        start: Callable[[], None],
        backoff: Backoff | None = None,
    ) -> None:
        self._name = name
        self._current = current
        self._died = died
        self._start = start
        self._backoff = backoff or Backoff()
        self._next_try_s: float | None = None
        self.restarts = 0

    def step(self, now_s: float) -> None:
        """Look after the child once.

        Args:
            now_s: time on the clock of ``time.monotonic``.
        """
        if self._next_try_s is None:
            child = self._current()
            if child is None or child.is_running():
                return
            log.error("the %s ended with code %s: %s", self._name, child.exit_code, child.last_words())
            self._schedule(now_s)
            self._died()
        elif now_s >= self._next_try_s:
            try:
                self._start()
            except (VoxrepoError, OSError) as error:  # a disk that is full or has gone is no reason to end
                log.error("the %s did not start: %s", self._name, error)
                self._schedule(now_s)
            else:
                self._next_try_s = None
                self.restarts += 1

    def _schedule(self, now_s: float) -> None:
        wait_s = self._backoff.next_wait_s(now_s)
        self._next_try_s = now_s + wait_s
        log.warning("restarting the %s in %.1f s", self._name, wait_s)
