"""Requests that meet a voice in recovery wait for it, for a while and not too many, instead of being refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from voxrepo.edge.table import POLL_INTERVAL_S, TableWatcher
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import Unavailable

HOLD_TIMEOUT_S = 30.0
"""Longest wait, where the options do not say."""
NOTICE_S = 3.0
"""After a failed call, how long the supervisor may take to say that the voice is being recovered; it looks for dead
stubs every second or so."""
MAX_HELD = 256
"""Requests that may wait for all voices together; the next one is refused at once."""


class Holding:
    """The waiting room.

    Requests name what they use: the voice first, then arms of it, which may be in recovery alone.

    Args:
        tables: source of the current table, whose ``held`` names voices and arms in recovery, and ``draining`` the
            voices that soon are.
        hold_timeout_s: longest wait of a request.

    Attributes:
        waiting: requests in it.
    """

    def __init__(self, tables: TableWatcher, hold_timeout_s: float = HOLD_TIMEOUT_S) -> None:
        self._tables = tables
        self._hold_timeout_s = hold_timeout_s
        self.waiting = 0

    def is_held(self, *names: str) -> bool:
        """Whether one of these is being recovered."""
        held = self._tables.table.held
        return any(name in held for name in names)

    def keeps_out(self, *names: str) -> bool:
        """Whether requests that have not begun wait."""
        draining = self._tables.table.draining
        return self.is_held(*names) or any(name in draining for name in names)

    async def begin_when_free(self, names: Sequence[str], record: RequestRecord) -> None:
        """Wait while nothing may begin; otherwise as :meth:`pass_when_free`."""
        await self._pass(self.keeps_out, names, record)

    async def pass_when_free(self, names: Sequence[str], record: RequestRecord) -> None:
        """Wait while one of these is held.

        Raises:
            DeadlineExceeded: the request's deadline passed first.
            Unavailable: it took too long, or too many wait already.
        """
        await self._pass(self.is_held, names, record)

    async def _pass(self, is_closed: Callable[..., bool], names: Sequence[str], record: RequestRecord) -> None:
        if is_closed(*names) and not await self._wait(lambda: not is_closed(*names), self._hold_timeout_s, record):
            closed = next((name for name in names if is_closed(name)), names[0])
            raise Unavailable(
                f"voice {closed!r} is being restarted and was not back within {self._hold_timeout_s:g} s; "
                "try again in a moment",
                reason="held",
            )

    async def pass_after_failure(
        self, names: Sequence[str], record: RequestRecord, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """Wait until what a call used has been recovered from a fault that it has just met.

        The supervisor may not have seen the fault yet: it gets :data:`NOTICE_S` for that.

        Args:
            names: of the voice, and of an arm.
            record: of the request.
            is_over: whether what the call was for will not come back.

        Raises:
            DeadlineExceeded: the request's deadline passed first.
            Unavailable: it took too long, or too many wait already.
        """
        await self._wait(lambda: self.is_held(*names) or is_over(), min(NOTICE_S, self._hold_timeout_s), record)
        await self.pass_when_free(names, record)

    async def _wait(self, condition: Callable[[], bool], timeout_s: float, record: RequestRecord) -> bool:
        if self.waiting >= MAX_HELD:
            raise Unavailable(
                f"{self.waiting} requests wait for voices that are being restarted; try again in a moment",
                reason="held",
            )
        ends_s = time.monotonic() + timeout_s
        self.waiting += 1
        try:
            while not condition():
                now_s = time.monotonic()
                if record.deadline_s is not None and now_s >= record.deadline_s:
                    raise record.deadline_error()
                if now_s >= ends_s:
                    return False
                limits_s = [ends_s - now_s, POLL_INTERVAL_S]
                if record.deadline_s is not None:
                    limits_s.append(record.deadline_s - now_s)
                await asyncio.sleep(min(limits_s))
            return True
        finally:
            self.waiting -= 1
