"""Inference with a voice and its arms: requests are assigned, counted as users, served, and seen if that is wanted."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from voxrepo.edge.assigning import ArmGone, Assigner, Assignment
from voxrepo.edge.copies import Copies
from voxrepo.edge.in_use import InUse
from voxrepo.edge.observing import Observer
from voxrepo.edge.routing import no_such_arm
from voxrepo.edge.seen import Seen, ended
from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo.edge.voice_calls import VoiceCalls
from voxrepo.metrics.accounting import RequestRecord

log = logging.getLogger(__name__)


class ArmCalls:
    """Calls of voices, through whichever arm.

    Args:
        calls: serves a request once it is assigned.
        assigner: assigns it.
        table: the current one.
        voice: the row of a name, waited for while it is in recovery; None if there is none.
        in_use: counts what requests use.
        observer: takes what requests of voices under a rollout were like; None if nobody wants to know.
        copies: speaks some of them again.
    """

    def __init__(
        self,
        calls: VoiceCalls,
        assigner: Assigner,
        table: Callable[[], EdgeTable],
        voice: Callable[[str, RequestRecord], Awaitable[VoiceEntry | None]],
        in_use: InUse,
        observer: Observer | None = None,
        copies: Copies | None = None,
    ) -> None:
        self._calls = calls
        self._assigner = assigner
        self._table = table
        self._voice = voice
        self._in_use = in_use
        self._observer = observer
        self._copies = copies
        self._is_closed = False

    async def close(self) -> None:
        """Begin no more copies, and give up the one that is being made."""
        self._is_closed = True
        if self._copies is not None:
            await self._copies.close()

    async def infer(self, name: str, voice: VoiceEntry, request: Any, record: RequestRecord) -> Any:
        """One answer; see :meth:`voxrepo.edge.dataplane.DataPlane.infer`.

        Args:
            name: that the client calls.
            voice: its row.
            request: ``ModelInferRequest``.
            record: of the request.
        """
        assignment, seen = self._assigned(voice, request, record, streamed=False)
        try:
            with self._in_use.using(*assignment.entries):
                return await self._calls.infer(request, assignment, record, seen)
        except ArmGone as gone:
            voice = await self._voice_again(name, assignment, record, gone)
        assignment, seen = self._assigned(voice, request, record, streamed=False)
        with self._in_use.using(*assignment.entries):
            return await self._calls.infer(request, assignment, record, seen)

    async def stream(
        self, name: str, voice: VoiceEntry, request: Any, record: RequestRecord
    ) -> AsyncGenerator[tuple[Any, bool], None]:
        """The audio in pieces; ``name`` is the voice's or arm's, without the suffix. Otherwise as :meth:`infer`."""
        assignment, seen = self._assigned(voice, request, record, streamed=True)
        try:
            async with aclosing(self._pieces(request, assignment, record, seen)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        except ArmGone as gone:
            if record.pieces:
                raise
            voice = await self._voice_again(name, assignment, record, gone)
        assignment, seen = self._assigned(voice, request, record, streamed=True)
        async with aclosing(self._pieces(request, assignment, record, seen)) as pieces:
            async for piece in pieces:
                yield piece

    async def _pieces(
        self, request: Any, assignment: Assignment, record: RequestRecord, seen: Seen | None
    ) -> AsyncGenerator[tuple[Any, bool], None]:
        with self._in_use.using(*assignment.entries):
            async with aclosing(self._calls.stream(request, assignment, record, seen)) as pieces:
                async for piece in pieces:
                    yield piece

    def _assigned(
        self, voice: VoiceEntry, request: Any, record: RequestRecord, *, streamed: bool
    ) -> tuple[Assignment, Seen | None]:
        """Who serves a request; and where what is seen of it goes, if its voice is under a rollout.

        Nothing may be awaited between this and the count of what it uses: the supervisor is told both with the table.
        """
        assignment = self._assigner.assign(voice, request.parameters, record, streamed=streamed)
        # told here already: it may be refused before it is checked
        record.arm, record.versions = assignment.arm, assignment.entries[0].versions
        if self._observer is None or assignment.route is None:
            record.ended = None
            return assignment, None
        seen = Seen(assignment, streamed)
        record.ended = partial(self._ended, self._observer, seen)
        return assignment, seen

    def _ended(self, observer: Observer, seen: Seen, record: RequestRecord, seconds: float) -> None:
        observer.put(ended(seen, record, seconds))
        if self._copies is not None and not self._is_closed:
            self._copies.offer(seen, record, seconds)

    async def _voice_again(self, name: str, assignment: Assignment, record: RequestRecord, gone: ArmGone) -> VoiceEntry:
        """The row ``name`` after an arm was taken away.

        Raises:
            NotFound: the client called that arm; names those that there are.
            ArmGone: the voice is not served either.
        """
        log.info("request %s: %s was taken away; assigned anew", record.id, assignment.entries[0].name)
        voice = await self._voice(name, record)
        if voice is not None:
            return voice
        entry = assignment.entry
        if not entry.voice:
            raise gone
        table = self._table()
        raise no_such_arm(entry.voice, entry.arm, table.voices, table.routes.get(entry.voice))
