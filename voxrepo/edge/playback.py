"""When a listener who plays audio as it comes will want more of it."""

from __future__ import annotations

import time
from collections.abc import Callable


class Playback:
    """The clock of one listener; times are those of ``time.monotonic``.

    Args:
        asked_s: when the request came; until there is audio, everything is needed by then.
        begins_s: when playing begins; None if that is when the first audio is there.
        pace: seconds of audio that are played in a second.
        clock: the time.
    """

    def __init__(
        self,
        asked_s: float,
        begins_s: float | None = None,
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._asked_s = asked_s
        self._begins_s = begins_s
        self._pace = pace
        self._clock = clock
        self._made_s = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether there is audio to play."""
        return self._made_s > 0

    @property
    def is_behind(self) -> bool:
        """Whether more audio should be there by now."""
        return self._clock() > self.needed_by_s()

    def add(self, seconds: float) -> None:
        """So much more audio is there, from now on."""
        if self._begins_s is None:
            self._begins_s = self._clock()
        self._made_s += seconds

    def needed_by_s(self, ahead_s: float = 0.0) -> float:
        """When the audio so far will have been played, and ``ahead_s`` seconds that follow it."""
        if self._begins_s is None:
            return self._asked_s
        return self._begins_s + (self._made_s + ahead_s) / self._pace
