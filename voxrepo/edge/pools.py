"""Places that several models share, because they share what runs them.

On a CPU the stages of a voice take the same cores from each other, whether a call names one of them or the ensemble of
all. A pool bounds the calls to all of them together, and gives free places in one order. Without it, whole requests
queue up inside the engine, where a piece that somebody waits to hear cannot overtake them.

Some gates leave one of the places to the others, all of them together: those of arms that cost much, to the stable
versions. In one order alone, these would stand behind a slow arm's whole line.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from voxrepo.edge.lines import Line, Place, next_arrival, rank

STUCK_S = 10.0
"""A call that has been inside for so long keeps its place in its gate, but neither a place in the pool nor a part of
its time: a version that hangs must not take them from the others."""

WAIT_PRECISION_S = 0.001

Clock = Callable[[], float]


class Member(Protocol):
    """What a pool must know of a gate."""

    line: Line
    limit: int
    leaves_one: bool
    inside: set[Place]

    def let_in(self, place: Place) -> None:
        """Give a waiting caller its place."""


@dataclass(frozen=True)
class Ahead:
    """Calls of other gates that are inside or go before a newcomer.

    Attributes:
        places: of these calls.
        part: most of the pool's time that they can have, since few of them are let in at a time; 0 to 1.
    """

    places: Sequence[Place]
    part: float


def wait_behind(sure_s: float, others: Iterable[tuple[float, float]]) -> float:
    """Longest wait of a newcomer.

    While it waits for w seconds, others that can have the part p of the pool's time take p w of them at most, however
    many they are: w = ``sure_s`` + the sum of min(own time of those ahead, p w) over the others. The largest such w
    counts.

    Args:
        sure_s: own time of what must end or go first.
        others: own time of those ahead, and the part of the time that they can have.
    """
    lines = list(others)
    wait_s = sure_s + sum(ahead_s for ahead_s, _ in lines)
    while True:
        less_s = sure_s + sum(min(ahead_s, part * wait_s) for ahead_s, part in lines)
        if wait_s - less_s < WAIT_PRECISION_S:
            return less_s
        wait_s = less_s


class Pool:
    """Places for the calls of several gates. Belongs to one event loop.

    Args:
        clock: seconds.
        name: empty for a pool of one gate.

    Attributes:
        limit: calls at a time; None for a pool that leaves limits to its gates.
        gates: those that share it.
        inside: calls in the engine.
    """

    def __init__(self, clock: Clock, name: str = "") -> None:
        self._clock = clock
        self.name = name
        self.limit: int | None = None
        self.gates: list[Member] = []
        self.inside: set[Place] = set()
        self._shared_at_s = clock()
        self._timer: asyncio.TimerHandle | None = None

    def set_limit(self, limit: int | None) -> None:
        """Go by another limit at once, for those who wait, too."""
        if limit != self.limit:
            self.limit = limit
            self.admit()

    # ---- the time of the pool

    def share(self) -> float:
        """Bring the own times of all calls inside up to date.

        Of each moment, n calls inside get 1/n each; those that are stuck get a part only where there are no others.

        Returns:
            now.
        """
        now_s = self._clock()
        while self._shared_at_s < now_s:
            since_s = self._shared_at_s
            live = [place for place in self.inside if since_s < _stuck_at_s(place)]
            self._shared_at_s = min([now_s, *map(_stuck_at_s, live)])
            sharing = live or self.inside
            for place in sharing:
                place.shared_s += self._shared_at_s - since_s
                place.own_s += (self._shared_at_s - since_s) / len(sharing)
        return now_s

    def enter(self, place: Place) -> None:
        """Note a call that goes in."""
        place.entered_s = self.share()
        self.inside.add(place)

    def leave(self, place: Place) -> None:
        """Note that a call has ended."""
        self.share()
        self.inside.discard(place)

    # ---- the gates

    def join(self, gate: Member) -> None:
        """Take a gate in, with its calls and its line."""
        self.share()
        self.gates.append(gate)
        self.inside |= gate.inside
        self.watch()

    def part_with(self, gate: Member) -> None:
        """Let a gate go, with its calls and its line; the others get the places."""
        self.share()
        self.gates.remove(gate)
        self.inside -= gate.inside
        self.admit()

    # ---- the places

    def has_room(self, now_s: float, gate: Member) -> bool:
        """Whether one more call of ``gate`` may go in."""
        return self._free(now_s)[gate.leaves_one] > 0

    def _free(self, now_s: float) -> tuple[float, float]:
        """Places that are free for gates that leave none to others, and for those that leave one."""
        if self.limit is None:
            return math.inf, math.inf

        def live(places: Iterable[Place]) -> int:
            return sum(now_s < _stuck_at_s(place) for place in places)

        free = self.limit - live(self.inside)
        leaving = sum(live(gate.inside) for gate in self.gates if gate.leaves_one)
        return free, min(free, _left_places(self.limit) - leaving)

    def _candidates(self, now_s: float) -> Iterator[tuple[Place, Member]]:
        free = self._free(now_s)
        if free[False] <= 0:
            return
        for gate in self.gates:
            if len(gate.inside) < gate.limit and free[gate.leaves_one] > 0:
                for head in gate.line.heads():
                    yield head, gate

    def admit(self) -> None:
        """Let callers in as far as there are places."""
        while True:
            now_s = self._clock()
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
        due = [_stuck_at_s(place) - now_s for place in self.inside]
        soonest_s = min((seconds for seconds in due if seconds > 0), default=None)
        if soonest_s is not None:
            self._timer = asyncio.get_running_loop().call_later(soonest_s + 0.01, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.admit()

    def ahead_of(self, gate: Member, is_heard: bool) -> tuple[list[Place], list[Ahead]]:
        """Calls that are inside, and those in line that go before a newcomer to ``gate``, as of the last :meth:`share`.

        Returns:
            those of its own, and those of the others.
        """
        now_s = self._shared_at_s
        mine = rank(is_heard, now_s, next_arrival(), now_s)

        def before(other: Member) -> list[Place]:
            return [*other.inside, *(place for place in other.line if place.rank(now_s) <= mine)]

        def part(other: Member) -> float:
            stuck = sum(_stuck_at_s(place) <= now_s for place in other.inside)
            return min(max(other.limit - stuck, 0) / max(self.limit or other.limit, 1), 1.0)

        free, leaving = list[Ahead](), list[Ahead]()
        for other in self.gates:
            if other is not gate:
                leaves_one = other.leaves_one and not gate.leaves_one
                (leaving if leaves_one else free).append(Ahead(before(other), part(other)))
        return before(gate), free if self.limit is None else [*free, _together(leaving, self.limit)]


def _left_places(limit: int) -> int:
    """Most places of a pool for gates that leave one to others; a pool of one place has none to leave."""
    return max(limit - 1, 1)


def _together(lines: Iterable[Ahead], limit: int) -> Ahead:
    """Calls of gates that leave one place to the newcomer's."""
    busy = [line for line in lines if line.places]
    part = min(sum(line.part for line in busy), _left_places(limit) / limit)
    return Ahead([place for line in busy for place in line.places], part)


def _stuck_at_s(place: Place) -> float:
    return place.entered_s + STUCK_S
