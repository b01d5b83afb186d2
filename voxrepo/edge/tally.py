"""A count of what is under way, whose end can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Tally:
    """Counts. Belongs to one event loop.

    Attributes:
        count: how many are under way.
    """

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()
        self._none.set()

    def add(self) -> None:
        """One begins."""
        self.count += 1
        self._none.clear()

    def remove(self) -> None:
        """One has ended."""
        self.count -= 1
        if not self.count:
            self._none.set()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One that lasts as long as the block."""
        self.add()
        try:
            yield
        finally:
            self.remove()

    async def none_left(self, timeout_s: float) -> bool:
        """Wait until none is under way.

        Returns:
            whether that was within ``timeout_s``.
        """
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._none.wait(), max(timeout_s, 0.0))
        return not self.count
