"""The order in which calls get their places in the engine.

Three kinds of calls wait, and within each the one that is needed first goes first:

1. what somebody is about to hear: first pieces, and continuations of a stream with less than :data:`LEAD_S` of audio
   in hand;
2. what somebody waits for as a whole;
3. what continues a stream that is ahead of its playback.

Nobody waits for ever: what waited for as a whole takes :data:`PATIENCE_S` counts as if it were heard, and what is made
ahead comes to be needed. Two bounds see to the rest: what is late counts as late by :data:`MAX_LATE_S` at most, or
streams that fell far behind would keep all others out; and what is needed far ahead counts as needed in
:data:`MAX_AHEAD_S`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

LEAD_S = 1.0
"""Audio in hand below which a stream's continuation is urgent: a busy engine takes some tenths of a second for each of
the calls that the next second of audio needs."""

PATIENCE_S = 10.0
"""After this, who waits for a whole answer is served like a listener. Streams need a part of the engine that admission
bounds, so that this is reached when more is asked for than the engine can do."""

MAX_LATE_S = 1.0
MAX_AHEAD_S = 10.0

Rank = tuple[int, float, int]

_arrivals = itertools.count(1)


def next_arrival() -> int:
    """A number for each who gets in line, whichever it is: a line may come to share places with others."""
    return next(_arrivals)


@dataclass(frozen=True)
class Need:
    """What a call is for.

    Attributes:
        by_s: when its answer is needed, on the gates' clock; None: now.
        begins: it begins something, rather than going on with it.
        is_heard: somebody listens while the audio is made.
    """

    by_s: float | None = None
    begins: bool = True
    is_heard: bool = False

    def bounded_s(self, now_s: float) -> float:
        """The moment that counts in line."""
        return now_s if self.by_s is None else min(max(self.by_s, now_s - MAX_LATE_S), now_s + MAX_AHEAD_S)


@dataclass(eq=False)
class Place:
    """A place in the engine, or a turn in the line for it.

    Attributes:
        line: name of the line, under which its cost is known.
        units: what the cost of the call grows with, see :mod:`voxrepo.edge.costs`.
        need: what it is for.
        entered_s: when the call went in.
        shared_s: time since then in which it got a part, see :meth:`voxrepo.edge.pools.Pool.share`.
        own_s: its part of that time.
    """

    line: str
    units: int
    need: Need
    key: tuple[float, int] = (0.0, 0)
    turn: asyncio.Future[None] | None = None
    has_left: bool = False
    entered_s: float = 0.0
    shared_s: float = 0.0
    own_s: float = 0.0

    def rank(self, now_s: float) -> Rank:
        """Its place in the order of all who wait at this moment; the least goes first."""
        return rank(self.need.is_heard, self.key[0], self.key[1], now_s)


def rank(is_heard: bool, needed_s: float, arrival: int, now_s: float) -> Rank:
    """The order; see the module."""
    if is_heard:
        return (0 if needed_s - LEAD_S <= now_s else 2, needed_s, arrival)
    patient_until_s = needed_s + PATIENCE_S
    return (0, patient_until_s, arrival) if patient_until_s <= now_s else (1, needed_s, arrival)


@dataclass
class _Turns:
    """Turns by the moment at which they are needed, then by arrival."""

    heap: list[tuple[tuple[float, int], Place]] = field(default_factory=list)
    length: int = 0

    def add(self, place: Place) -> None:
        heapq.heappush(self.heap, (place.key, place))
        self.length += 1

    def drop(self, place: Place) -> None:
        """Take one out of the middle: it is skipped later, and the heap is swept when half of it is gone."""
        place.has_left = True
        self.length -= 1
        if len(self.heap) > 2 * self.length + 16:
            self.heap = [entry for entry in self.heap if not entry[1].has_left]
            heapq.heapify(self.heap)

    def head(self) -> Place | None:
        while self.heap and self.heap[0][1].has_left:
            heapq.heappop(self.heap)
        return self.heap[0][1] if self.heap else None

    def pop(self) -> None:
        heapq.heappop(self.heap)
        self.length -= 1


class Line:
    """Who waits for one model."""

    def __init__(self) -> None:
        # the rank within one kind is the order of the moments whatever the time, so that two heads are enough to know
        self._heard, self._whole = _Turns(), _Turns()
        self.newcomers = 0

    @property
    def length(self) -> int:
        """Number of those who wait."""
        return self._heard.length + self._whole.length

    @property
    def kept(self) -> int:
        """Entries in memory, those of callers that have left included."""
        return len(self._heard.heap) + len(self._whole.heap)

    def _turns(self, place: Place) -> _Turns:
        return self._heard if place.need.is_heard else self._whole

    def add(self, place: Place) -> None:
        """Put one in line, by its key."""
        self._turns(place).add(place)
        self.newcomers += place.need.begins

    def drop(self, place: Place) -> None:
        """Take one out that gave up."""
        self._turns(place).drop(place)
        self.newcomers -= place.need.begins

    def heads(self) -> Iterator[Place]:
        """The first of each kind: of what is heard, and of what is waited for as a whole."""
        for turns in (self._heard, self._whole):
            head = turns.head()
            if head is not None:
                yield head

    def take(self, head: Place) -> None:
        """Let go of one of :meth:`heads`, whose turn it is."""
        self._turns(head).pop()
        self.newcomers -= head.need.begins

    def __iter__(self) -> Iterator[Place]:
        for turns in (self._heard, self._whole):
            yield from (place for _, place in turns.heap if not place.has_left)
