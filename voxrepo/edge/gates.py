"""Places in the engine, and the lines in front of them.

A model gets as many calls at a time as keep its instances busy; who comes later waits here and not in the engine, in
the order of :mod:`voxrepo.edge.lines`. A caller that leaves or runs out of time while it waits costs nothing, since its
call never starts: clients that give up faster than the engine works cannot fill it with work that nobody wants.

Versions of a stage have processes of their own, so each has a line of its own, too: who uses the stable versions is not
kept out by the length of a slow candidate's line. Models that share their cores share places, see
:mod:`voxrepo.edge.pools`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from voxrepo.edge.lines import Line, Need, Place, next_arrival
from voxrepo.edge.pools import Clock, Pool, wait_behind
from voxrepo_contract.errors import Unavailable
from voxrepo_contract.names import VOICE_STAGES

MAX_WAITING = 256
"""Newcomers that may wait for one model; the next one is refused at once."""

CONTINUATION_ROOM = 4
"""Calls that go on with something begun may make the line this many times as long: they are bounded by what was let
in, and to refuse one would waste the work done before it."""

OTHER_MODELS = "other models"
"""The line that models share which the table does not know, so that made-up names take no memory."""

MAX_GATES = 1024
"""Above this many, those are forgotten that nobody uses: versions come and go, and may be made up."""

NOW = Need()
"""Of a call that begins something, to be waited for as a whole."""


def line_version(model: str, version: str | int) -> str:
    """The version of ``model`` that has a line of its own; empty where all versions share one."""
    return str(version) if model.rpartition(".")[2] in VOICE_STAGES else ""


def line_name(model: str, version: str | int) -> str:
    """The name of the line in which calls of a version of ``model`` wait."""
    own = line_version(model, version)
    return f"{model} version {own}" if own else model


Costs = Callable[[str], tuple[float, float]]
"""Own seconds of a call without units, and those that each unit adds, by the name of a line."""


class CallGate:
    """Places for the calls of one model. Belongs to one event loop.

    Args:
        name: for messages, and under which costs are known.
        limit: most calls at a time.
        max_waiting: most newcomers in line.
        clock: seconds; ``time.monotonic``.
        model: that is called; ``name`` if not given.
        version: of it, empty if all versions share the gate.
        pool: of places that it shares with other gates; one of its own if not given.
        leaves_one: it leaves a place of the pool to others, see :mod:`voxrepo.edge.pools`.

    Attributes:
        line: who waits.
        inside: calls in the engine.
        pool: as above.
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
        pool: Pool | None = None,
        leaves_one: bool = False,
    ) -> None:
        self.name = name
        self.model = model or name
        self.version = version
        self.limit = limit
        self.leaves_one = leaves_one
        self._max_waiting = max_waiting
        self._clock = clock
        self.line = Line()
        self.inside: set[Place] = set()
        self.draining = 0
        self.pool = Pool(clock) if pool is None else pool
        self.pool.join(self)

    @property
    def running(self) -> int:
        """Calls in the engine, draining ones included."""
        return len(self.inside)

    @property
    def waiting(self) -> int:
        """Callers in line."""
        return self.line.length

    @property
    def is_full(self) -> bool:
        """Whether a newcomer would be refused for the length of the line."""
        return self.line.newcomers >= self._max_waiting

    def used_s(self, place: Place) -> tuple[float, float]:
        """How long a call has been inside, and which part of that was its own.

        The time during which the pool has calls inside is divided among them: n calls at a time get 1/n each. The own
        times of all calls add up to the time in which the pool was busy, so that they tell what it can do: a second of
        it, divided by the own time of a call, is the number of such calls that it answers in a second, whatever the
        engine does with several at a time.

        Returns:
            seconds in which the call got a part, and own seconds. The former are fewer than those inside for a call
            that was stuck beside others: how long it was says nothing of what calls cost.
        """
        self.pool.share()
        return place.shared_s, place.own_s

    def wait_s(self, costs: Costs, *, is_heard: bool = False) -> float:
        """Seconds that a newcomer is thought to wait: own time of what is inside and goes ahead of it in line, of other
        gates as far as these get places meanwhile.

        0 while there are free places.

        Args:
            costs: of calls, by line.
            is_heard: somebody will listen while its audio is made.
        """
        now_s = self.pool.share()
        if self._is_open(now_s):
            return 0.0

        def left_s(place: Place) -> float:
            fixed_s, of_unit_s = costs(place.line)
            return max(fixed_s + of_unit_s * place.units - place.own_s, 0.0)

        own, others = self.pool.ahead_of(self, is_heard)
        return wait_behind(sum(map(left_s, own)), [(sum(map(left_s, other.places)), other.part) for other in others])

    def _is_open(self, now_s: float) -> bool:
        return len(self.inside) < self.limit and not self.line.length and self.pool.has_room(now_s, self)

    # ---- the line

    async def enter(self, timeout_s: float | None, need: Need = NOW, units: int = 1) -> Place | None:
        """Take a place, waiting in line if all are taken. A place taken must be given back by :meth:`leave`.

        Args:
            timeout_s: longest wait.
            need: what the call is for.
            units: size of the call.

        Returns:
            the place; None if ``timeout_s`` passed first.

        Raises:
            Unavailable: the line is full.
        """
        place = Place(self.name, units, need)
        now_s = self._clock()
        if self._is_open(now_s):
            self.let_in(place)
            return place
        if self.line.length >= self._max_waiting * CONTINUATION_ROOM or (need.begins and self.is_full):
            raise Unavailable(
                f"the queue is full: {self.line.length} requests wait for {self.name}; try again in a moment",
                reason="queue",
            )
        place.key = (need.bounded_s(now_s), next_arrival())
        turn = place.turn = asyncio.get_running_loop().create_future()
        self.line.add(place)
        self.pool.watch()
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
        if place in self.inside:
            # the place was handed over in the same moment in which its taker gave up
            self.leave(place)
        else:
            self.line.drop(place)

    def let_in(self, place: Place) -> None:
        """Give a caller its place."""
        self.pool.enter(place)
        self.inside.add(place)
        if place.turn is not None:
            place.turn.set_result(None)

    def move(self, pool: Pool) -> None:
        """Share another pool's places from now on."""
        before, self.pool = self.pool, pool
        before.part_with(self)
        pool.join(self)
        pool.admit()

    def leave(self, place: Place) -> None:
        """Give a place back; the next in line has it at once. One that was given back before is left alone."""
        if place not in self.inside:
            return
        self.inside.remove(place)
        self.pool.leave(place)
        self.pool.admit()


PoolOf = Callable[[str], tuple[str, int] | None]
LeavesOne = Callable[[str, str], bool]


class Gates:
    """A gate for each model, and for each version of a stage.

    Args:
        limit_of: calls at a time for a model, ``None`` for models without a gate of their own.
        other_limit: calls at a time of all those together.
        clock: seconds; ``time.monotonic``.
        pool_of: name and limit of the pool that a model shares with others, ``None`` if it has its own.
        leaves_one: whether a model, or a version of a stage, leaves a place of its pool to others.

    Attributes:
        other_limit: as above; may be changed, see :meth:`refresh`.
    """

    def __init__(
        self,
        limit_of: Callable[[str], int | None],
        other_limit: int,
        clock: Clock = time.monotonic,
        pool_of: PoolOf = lambda model: None,
        leaves_one: LeavesOne = lambda model, version: False,
    ) -> None:
        self._limit_of = limit_of
        self._pool_of = pool_of
        self._leaves_one = leaves_one
        self.other_limit = other_limit
        self._clock = clock
        self._gates: dict[tuple[str, str], CallGate] = {}
        self._pools: dict[str, Pool] = {}

    def of(self, model: str, version: str | int = "") -> CallGate:
        """The gate of a model or of a version of a stage, its limits up to date."""
        limit = self._limit_of(model)
        key = (model, line_version(model, version)) if limit is not None else (OTHER_MODELS, "")
        limit = limit if limit is not None else self.other_limit
        leaves_one = self._leaves_one(*key)
        gate = self._gates.get(key)
        if gate is None:
            self._forget_unused()
            pool = self._pool(key[0], None)
            gate = CallGate(
                line_name(*key),
                limit,
                clock=self._clock,
                model=key[0],
                version=key[1],
                pool=pool,
                leaves_one=leaves_one,
            )
            self._gates[key] = gate
            return gate
        pool = self._pool(key[0], gate.pool)
        if pool is not gate.pool:
            gate.move(pool)
        if (gate.limit, gate.leaves_one) != (limit, leaves_one):
            gate.limit, gate.leaves_one = limit, leaves_one
            pool.admit()
        return gate

    def _pool(self, model: str, current: Pool | None) -> Pool:
        """The pool that a model is to use, its limit up to date."""
        shared = self._pool_of(model)
        if shared is None:
            return Pool(self._clock) if current is None or current.name else current
        name, limit = shared
        pool = self._pools.setdefault(name, Pool(self._clock, name))
        pool.set_limit(limit)
        return pool

    def _forget_unused(self) -> None:
        if len(self._gates) < MAX_GATES:
            return
        self._gates = {key: gate for key, gate in self._gates.items() if gate.running or gate.waiting}
        for pool in self._pools.values():
            pool.gates = [gate for gate in pool.gates if gate.inside or gate.line.length]

    def refresh(self) -> None:
        """Go by changed limits at once, for those who wait, too."""
        for model, version in list(self._gates):
            self.of(model, version)

    def total(self, count: Callable[[CallGate], int]) -> int:
        """Sum of a count over all gates."""
        return sum(count(gate) for gate in self._gates.values())
