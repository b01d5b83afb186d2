"""Places in the engine, and the lines in front of them.

A model gets as many calls at a time as keep its instances busy; who comes later waits here and not in the engine, in
the order in which the results are needed. A caller that leaves or runs out of time while it waits costs nothing, since
its call never starts: clients that give up faster than the engine works cannot fill it with work that nobody wants.

Earliest needed first is the one rule of the line. What is needed now (first pieces, short requests) goes ahead of the
continuation of a stream with audio in hand; a continuation that is about to run dry goes ahead of what arrives later.
Nobody waits for ever: all moments are on one clock, so what comes later is needed later in the end. Two bounds see to
the rest: what is late counts as late by :data:`MAX_LATE_S` at most, or streams that fell far behind would keep all
others out; and what is needed far ahead counts as needed in :data:`MAX_AHEAD_S`.

Versions of a stage have processes of their own, so each has a line of its own, too: who uses the stable versions does
not wait for the calls of a slow candidate, and is not refused for what those cost.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from voxrepo_contract.errors import Unavailable
from voxrepo_contract.names import VOICE_STAGES

MAX_WAITING = 256
"""Newcomers that may wait for one model; the next one is refused at once."""

CONTINUATION_ROOM = 4
"""Calls that go on with something begun may make the line this many times as long: they are bounded by what was let
in, and to refuse one would waste the work done before it."""

MAX_LATE_S = 1.0
MAX_AHEAD_S = 10.0

OTHER_MODELS = "other models"
"""The line that models share which the table does not know, so that made-up names take no memory."""

MAX_GATES = 1024
"""Above this many, those are forgotten that nobody uses: versions come and go, and may be made up."""

Clock = Callable[[], float]


def line_version(model: str, version: str | int) -> str:
    """The version of ``model`` that has a line of its own; empty where all versions share one."""
    return str(version) if model.rpartition(".")[2] in VOICE_STAGES else ""


def line_name(model: str, version: str | int) -> str:
    """The name of the line in which calls of a version of ``model`` wait."""
    own = line_version(model, version)
    return f"{model} version {own}" if own else model


@dataclass(eq=False)
class Place:
    """A place in the engine, or a turn in the line for it.

    Attributes:
        units: what the cost of the call grows with, see :mod:`voxrepo.edge.costs`.
        is_newcomer: whether it begins something, rather than going on with it.
    """

    units: int
    is_newcomer: bool
    key: tuple[float, int] = (0.0, 0)
    turn: asyncio.Future[None] | None = None
    has_left: bool = False
    entered_s: float = 0.0
    entered_shared_s: float = 0.0


@dataclass
class _Line:
    """Turns by the moment at which they are needed, then by arrival."""

    heap: list[tuple[tuple[float, int], Place]] = field(default_factory=list)
    length: int = 0
    newcomers: int = 0

    def add(self, place: Place) -> None:
        heapq.heappush(self.heap, (place.key, place))
        self.length += 1
        self.newcomers += place.is_newcomer

    def _count_out(self, place: Place) -> None:
        self.length -= 1
        self.newcomers -= place.is_newcomer

    def drop(self, place: Place) -> None:
        """Take one out of the middle: it is skipped later, and the heap is swept when half of it is gone."""
        place.has_left = True
        self._count_out(place)
        if len(self.heap) > 2 * self.length + 16:
            self.heap = [entry for entry in self.heap if not entry[1].has_left]
            heapq.heapify(self.heap)

    def first(self) -> Place:
        while True:
            _, place = heapq.heappop(self.heap)
            if not place.has_left:
                self._count_out(place)
                return place

    def __iter__(self) -> Iterator[Place]:
        return (place for _, place in self.heap if not place.has_left)


class CallGate:
    """Places for the calls of one model. Belongs to one event loop.

    Args:
        name: for messages.
        limit: most calls at a time.
        max_waiting: most newcomers in line.
        clock: seconds; ``time.monotonic``.
        model: that is called; ``name`` if not given.
        version: of it, empty if all versions share the gate.

    Attributes:
        running: calls in the engine, draining ones included.
        draining: calls whose callers are gone.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        max_waiting: int = MAX_WAITING,
        clock: Clock = time.monotonic,
        *,
        model: str = "",
        version: str = "",
    ) -> None:
        self.name = name
        self.model = model or name
        self.version = version
        self.limit = limit
        self._max_waiting = max_waiting
        self._clock = clock
        self._line = _Line()
        self._inside: set[Place] = set()
        self._arrivals = 0
        self._shared_s = 0.0
        self._shared_at_s = clock()
        self.draining = 0

    @property
    def running(self) -> int:
        """Calls in the engine, draining ones included."""
        return len(self._inside)

    @property
    def waiting(self) -> int:
        """Callers in line."""
        return self._line.length

    @property
    def is_full(self) -> bool:
        """Whether a newcomer would be refused for the length of the line."""
        return self._line.newcomers >= self._max_waiting

    # ---- the time of the gate

    def _share(self) -> None:
        # between two changes each of n calls inside gets 1/n of the time
        now_s = self._clock()
        if self._inside:
            self._shared_s += (now_s - self._shared_at_s) / len(self._inside)
        self._shared_at_s = now_s

    def used_s(self, place: Place) -> tuple[float, float]:
        """How long a call has been inside, and which part of that was its own.

        The time during which the gate has calls inside is divided among them: n calls at a time get 1/n each. The own
        times of all calls add up to the time in which the gate was busy, so that they tell what the gate can do:
        a second of it, divided by the own time of a call, is the number of such calls that it answers in a second,
        whatever the engine does with several at a time.

        Returns:
            seconds inside, and own seconds.
        """
        self._share()
        return self._shared_at_s - place.entered_s, self._shared_s - place.entered_shared_s

    def wait_s(self, cost_s: float, cost_per_unit_s: float) -> float:
        """Seconds that a newcomer is thought to wait: own time of what is inside and goes ahead of it in the line.

        0 while there are free places.

        Args:
            cost_s: own time of a call without units.
            cost_per_unit_s: own time that each unit adds.
        """
        if len(self._inside) < self.limit and not self._line.length:
            return 0.0
        self._share()
        left = (
            cost_s + cost_per_unit_s * place.units - (self._shared_s - place.entered_shared_s) for place in self._inside
        )
        ahead = [place.units for place in self._line if place.key[0] <= self._shared_at_s]
        return sum(max(seconds, 0.0) for seconds in left) + len(ahead) * cost_s + sum(ahead) * cost_per_unit_s

    # ---- the line

    async def enter(self, timeout_s: float | None, needed_by_s: float | None = None, units: int = 1) -> Place | None:
        """Take a place, waiting in line if all are taken. A place taken must be given back by :meth:`leave`.

        Args:
            timeout_s: longest wait.
            needed_by_s: when the result is needed, on the gate's clock; None for newcomers: now.
            units: size of the call.

        Returns:
            the place; None if ``timeout_s`` passed first.

        Raises:
            Unavailable: the line is full.
        """
        place = Place(units, is_newcomer=needed_by_s is None)
        if len(self._inside) < self.limit and not self._line.length:
            self._let_in(place)
            return place
        if self._line.length >= self._max_waiting * CONTINUATION_ROOM or (place.is_newcomer and self.is_full):
            raise Unavailable(
                f"the queue is full: {self._line.length} requests wait for {self.name}; try again in a moment",
                reason="queue",
            )
        now_s = self._clock()
        needed_s = now_s if needed_by_s is None else min(max(needed_by_s, now_s - MAX_LATE_S), now_s + MAX_AHEAD_S)
        self._arrivals += 1
        place.key = (needed_s, self._arrivals)
        turn = place.turn = asyncio.get_running_loop().create_future()
        self._line.add(place)
        try:
            await asyncio.wait((turn,), timeout=timeout_s)
        except asyncio.CancelledError:
            self._step_out(place)
            raise
        if turn.done():
            return place
        self._step_out(place)
        return None

    def _step_out(self, place: Place) -> None:
        if place in self._inside:
            # the place was handed over in the same moment in which its taker gave up
            self.leave(place)
        else:
            self._line.drop(place)

    def _let_in(self, place: Place) -> None:
        self._share()
        self._inside.add(place)
        place.entered_s, place.entered_shared_s = self._shared_at_s, self._shared_s

    def leave(self, place: Place) -> None:
        """Give a place back; the next in line has it at once. One that was given back before is left alone."""
        if place not in self._inside:
            return
        self._share()
        self._inside.remove(place)
        self.admit()

    def admit(self) -> None:
        """Let callers in as far as there are places."""
        while self._line.length and len(self._inside) < self.limit:
            place = self._line.first()
            self._let_in(place)
            if place.turn is not None:
                place.turn.set_result(None)


class Gates:
    """A gate for each model, and for each version of a stage.

    Args:
        limit_of: calls at a time for a model, ``None`` for models without a gate of their own.
        other_limit: calls at a time of all those together.
        clock: seconds; ``time.monotonic``.

    Attributes:
        other_limit: as above; may be changed, see :meth:`refresh`.
    """

    def __init__(self, limit_of: Callable[[str], int | None], other_limit: int, clock: Clock = time.monotonic) -> None:
        self._limit_of = limit_of
        self.other_limit = other_limit
        self._clock = clock
        self._gates: dict[tuple[str, str], CallGate] = {}

    def of(self, model: str, version: str | int = "") -> CallGate:
        """The gate of a model or of a version of a stage, its limit up to date."""
        limit = self._limit_of(model)
        key = (model, line_version(model, version)) if limit is not None else (OTHER_MODELS, "")
        limit = limit if limit is not None else self.other_limit
        gate = self._gates.get(key)
        if gate is None:
            self._forget_unused()
            name = line_name(*key)
            gate = self._gates[key] = CallGate(name, limit, clock=self._clock, model=key[0], version=key[1])
        elif gate.limit != limit:
            gate.limit = limit
            gate.admit()
        return gate

    def _forget_unused(self) -> None:
        if len(self._gates) >= MAX_GATES:
            self._gates = {key: gate for key, gate in self._gates.items() if gate.running or gate.waiting}

    def refresh(self) -> None:
        """Go by changed limits at once, for those who wait, too."""
        for model, version in list(self._gates):
            self.of(model, version)

    def total(self, count: Callable[[CallGate], int]) -> int:
        """Sum of a count over all gates."""
        return sum(count(gate) for gate in self._gates.values())
