"""Places that several models share, because they share what runs them.

On a CPU the stages of a voice take the same cores from each other, whether a call names one of them or the ensemble of
all. A pool bounds the calls to all of them together, and gives free places in one order. Without it, whole requests
queue up inside the engine, where a piece that somebody waits to hear cannot overtake them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol

from voxrepo.edge.lines import Line, Place, rank

STUCK_S = 10.0
"""A call that has been inside for so long keeps its place in its gate, but none in the pool: a version that hangs must
not take the places of the others."""

Clock = Callable[[], float]


class Member(Protocol):
    """What a pool must know of a gate."""

    line: Line
    limit: int

    @property
    def running(self) -> int:
        """Calls in the engine."""

    def let_in(self, place: Place) -> None:
        """Give a waiting caller its place."""


class Pool:
    """Places for the calls of several gates. Belongs to one event loop.

    Args:
        clock: seconds.
        limit: calls at a time; None for a pool that leaves limits to its gates.

    Attributes:
        gates: those that share it.
        inside: calls in the engine.
    """

    def __init__(self, clock: Clock, limit: int | None = None) -> None:
        self._clock = clock
        self.limit = limit
        self.gates: list[Member] = []
        self.inside: set[Place] = set()
        self._shared_s = 0.0
        self._shared_at_s = clock()
        self._arrivals = 0
        self._timer: asyncio.TimerHandle | None = None

    def next_arrival(self) -> int:
        """A number for each who gets in line."""
        self._arrivals += 1
        return self._arrivals

    # ---- the time of the pool

    def share(self) -> float:
        """Bring the shared time up to date.

        Returns:
            now.
        """
        # between two changes each of n calls inside gets 1/n of the time
        now_s = self._clock()
        if self.inside:
            self._shared_s += (now_s - self._shared_at_s) / len(self.inside)
        self._shared_at_s = now_s
        return now_s

    def own_s(self, place: Place) -> float:
        """Own seconds of a call inside, as of the last :meth:`share`."""
        return self._shared_s - place.entered_shared_s

    def enter(self, place: Place) -> None:
        """Note a call that goes in."""
        place.entered_s = self.share()
        place.entered_shared_s = self._shared_s
        self.inside.add(place)

    def leave(self, place: Place) -> None:
        """Note that a call has ended."""
        self.share()
        self.inside.discard(place)

    # ---- the places

    def has_room(self, now_s: float) -> bool:
        """Whether one more call may go in."""
        return self.limit is None or sum(now_s - place.entered_s < STUCK_S for place in self.inside) < self.limit

    def _candidates(self, now_s: float) -> Iterator[tuple[Place, Member]]:
        for gate in self.gates:
            if gate.running < gate.limit:
                for head in gate.line.heads():
                    yield head, gate

    def admit(self) -> None:
        """Let callers in as far as there are places."""
        while self.has_room(now_s := self._clock()):
            first = min(self._candidates(now_s), key=lambda found: found[0].rank(now_s), default=None)
            if first is None:
                break
            place, gate = first
            gate.line.take(place)
            gate.let_in(place)
        self.watch()

    def watch(self) -> None:
        """Come back when a call inside counts as stuck, if somebody waits for its place."""
        if self.limit is None or self._timer is not None or not any(gate.line.length for gate in self.gates):
            return
        now_s = self._clock()
        due = [place.entered_s + STUCK_S - now_s for place in self.inside]
        soonest_s = min((seconds for seconds in due if seconds > 0), default=None)
        if soonest_s is not None:
            self._timer = asyncio.get_running_loop().call_later(soonest_s + 0.01, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.admit()

    def ahead_of(self, is_heard: bool) -> Iterator[Place]:
        """Those in line that go before a newcomer."""
        mine = rank(is_heard, self._shared_at_s, self._arrivals + 1, self._shared_at_s)
        for gate in self.gates:
            yield from (place for place in gate.line if place.rank(self._shared_at_s) <= mine)
