"""Calls that a model will answer late or never, since it was loaded again after its process died.

The engine notices only after seconds that a stub is dead, and one call after the other. The supervisor, which has seen
it at once, says through the table which models it has loaded again; what was called before is let go of then: its
callers may repeat it, and its place is free for calls of the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping


class RunningCalls:
    """The calls that run, by model. Belongs to one event loop."""

    def __init__(self) -> None:
        self._lost: dict[str, set[asyncio.Future[None]]] = {}

    def enter(self, model: str) -> tuple[asyncio.Future[None], Callable[[], None]]:
        """A call begins.

        Returns:
            done as soon as nothing is to be expected of it any more; and what to call at its end.
        """
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        calls = self._lost.setdefault(model, set())
        calls.add(lost)

        def leave() -> None:
            calls.discard(lost)
            if not calls and self._lost.get(model) is calls:
                del self._lost[model]

        return lost, leave

    def let_go(self, model: str) -> int:
        """Give up what runs of a model; how many calls that were."""
        calls = self._lost.pop(model, set())
        for lost in calls:
            if not lost.done():
                lost.set_result(None)
        return len(calls)


class Reloads:
    """Follows the numbers of reloads in the table.

    Args:
        let_go: told of each model that was loaded again.
        at_start: how often models had been by the first table.
    """

    def __init__(self, let_go: Callable[[str], object], at_start: Mapping[str, int]) -> None:
        self._let_go = let_go
        self._known = dict(at_start)

    def take(self, reloads: Mapping[str, int]) -> None:
        """Look at a new table."""
        for model, count in reloads.items():
            if count > self._known.get(model, 0):
                self._let_go(model)
        self._known = dict(reloads)
