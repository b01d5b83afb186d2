"""Server-sent events: an answer that is written while it is made."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import web

from voxrepo.edge import generate, jsonbody
from voxrepo.edge.delivery import taken
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import Cancelled, VoxrepoError

FAREWELL_S = 5.0
"""How long a client gets to take the error that ends its stream, before its connection is closed."""


class EventStream:
    """The answer to one request. Its status is sent with the first event, so that errors before it keep theirs.

    Args:
        request: the request.
        headers: of the answer, besides those that events need.
        stall_timeout_s: see :func:`voxrepo.edge.delivery.taken`.
    """

    def __init__(self, request: web.Request, headers: dict[str, str], stall_timeout_s: float) -> None:
        self._request = request
        self._stall_timeout_s = stall_timeout_s
        # proxies would hold events back, and caches keep them
        kept = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        self.response = web.StreamResponse(headers={**kept, **headers})
        self.response.content_type, self.response.charset = "text/event-stream", "utf-8"

    @property
    def has_begun(self) -> bool:
        """Whether the status has been sent."""
        return self.response.prepared

    async def write(self, document: bytes, record: RequestRecord) -> None:
        """Send one event; returns when the transport has room for more.

        Args:
            document: JSON in one line.
            record: of the request.

        Raises:
            Cancelled: the client has left, or takes nothing.
            DeadlineExceeded: the request's deadline passed first.
        """
        await taken(asyncio.create_task(self._write(document)), record, self._stall_timeout_s)

    async def _write(self, document: bytes) -> None:
        try:
            if not self.response.prepared:
                await self.response.prepare(self._request)
            await self.response.write(generate.event(document))
        except ConnectionError as error:
            raise Cancelled("the client has left") from error

    async def end(self) -> None:
        """Nothing more will come."""
        with suppress(ConnectionError):
            await self.response.write_eof()

    async def fail(self, error: VoxrepoError) -> None:
        """End with an event that tells the error; to be called after the first event only."""
        try:
            await asyncio.wait_for(self._fail(error), FAREWELL_S)
        except asyncio.TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()

    async def _fail(self, error: VoxrepoError) -> None:
        with suppress(ConnectionError, Cancelled):
            await self._write(jsonbody.dump({"error": error.message, "code": error.grpc_code}))
        await self.end()
