"""An event loop whose clock jumps to the next timer instead of waiting for it: minutes of schedule in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is left that could happen: a deadlock"
            self.now_s += max(timeout, 0.0)
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def now_s() -> float:
    """The clock of the running loop."""
    return asyncio.get_running_loop().time()


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a scenario to its end, its clock beginning at 0."""
    loop = _JumpingLoop()
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.close()
