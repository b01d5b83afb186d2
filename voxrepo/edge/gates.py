"""Places in the engine, and the lines in front of them.

A model gets as many calls at a time as keep its instances busy; who comes later waits here, in order, and not in the
engine. A caller that leaves or runs out of time while it waits costs nothing, since its call never starts: clients
that give up faster than the engine works cannot fill it with work that nobody wants.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from voxrepo_contract.errors import Unavailable

MAX_WAITING = 256
"""Callers that may wait for one model; the next one is refused at once."""

OTHER_MODELS = "other models"
"""The line that models share which the table does not know, so that made-up names take no memory."""


class CallGate:
    """Places for the calls of one model. Belongs to one event loop.

    Args:
        name: for messages.
        limit: most calls at a time.
        max_waiting: most callers in line.

    Attributes:
        running: calls in the engine, draining ones included.
        draining: calls whose callers are gone.
    """

    def __init__(self, name: str, limit: int, max_waiting: int = MAX_WAITING) -> None:
        self._name = name
        self.limit = limit
        self._max_waiting = max_waiting
        self._line: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self.draining = 0

    @property
    def waiting(self) -> int:
        """Callers in line."""
        return len(self._line)

    async def enter(self, timeout_s: float | None) -> bool:
        """Take a place, waiting in line if all are taken. A place taken must be given back by :meth:`leave`.

        Returns:
            whether a place was taken; false if ``timeout_s`` passed first.

        Raises:
            Unavailable: the line is full.
        """
        if self.running < self.limit and not self._line:
            self.running += 1
            return True
        if len(self._line) >= self._max_waiting:
            raise Unavailable(
                f"the queue is full: {len(self._line)} requests wait for {self._name}; try again in a moment"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await asyncio.wait((turn,), timeout=timeout_s)
        except asyncio.CancelledError:
            self._step_out(turn)
            raise
        if turn.done():
            return True
        self._step_out(turn)
        return False

    def _step_out(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            # the place was handed over in the same moment in which its taker gave up
            self.leave()
        else:
            self._line.remove(turn)

    def leave(self) -> None:
        """Give a place back; the next in line has it at once."""
        self.running -= 1
        self.admit()

    def admit(self) -> None:
        """Let callers in as far as there are places."""
        while self._line and self.running < self.limit:
            self.running += 1
            self._line.popleft().set_result(None)


class Gates:
    """A gate for each model.

    Args:
        limit_of: calls at a time for a model, ``None`` for models without a gate of their own.
        other_limit: calls at a time of all those together.
    """

    def __init__(self, limit_of: Callable[[str], int | None], other_limit: int) -> None:
        self._limit_of = limit_of
        self._other_limit = other_limit
        self._gates: dict[str, CallGate] = {}

    def of(self, model: str) -> CallGate:
        """The gate of a model, its limit up to date."""
        limit = self._limit_of(model)
        name = model if limit is not None else OTHER_MODELS
        limit = limit if limit is not None else self._other_limit
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = CallGate(name, limit)
        elif gate.limit != limit:
            gate.limit = limit
            gate.admit()
        return gate

    def total(self, count: Callable[[CallGate], int]) -> int:
        """Sum of a count over all gates."""
        return sum(count(gate) for gate in self._gates.values())
