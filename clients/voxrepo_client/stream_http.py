"""Streams over HTTP: the generate extension's ``generate_stream``, read as server-sent events."""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import aiohttp

from voxrepo_client.address import Address
from voxrepo_client.errors import BadResponse, ConnectionFailed, InvalidRequest
from voxrepo_client.events import EventReader, answer_of, parse_event
from voxrepo_client.http_errors import typed_errors
from voxrepo_client.loop_thread import LoopThread
from voxrepo_client.protocol import FINAL_PARAMETER, InferAnswer, InferCall, timeout_us
from voxrepo_client.status import error_from_event, error_from_http
from voxrepo_client.transport import CONNECT_TIMEOUT_S, closed_error


def _body(call: InferCall, timeout_s: float | None) -> bytes:
    document: dict[str, Any] = {}
    for name, array in call.inputs.items():
        value = array.reshape(-1)[0]
        plain = value.decode("utf-8") if isinstance(value, bytes) else value.item()
        if isinstance(plain, float) and not math.isfinite(plain):  # JSON has no word for it
            raise InvalidRequest(f"{name} is {plain}; it must be finite")
        document[name] = plain
    parameters: dict[str, Any] = dict(call.parameters)
    limit_us = timeout_us(timeout_s)
    if limit_us is not None:
        parameters["timeout"] = limit_us
    if parameters:
        document["parameters"] = parameters
    return json.dumps(document).encode()


class AsyncHttpAnswerStream:
    """One request, for asyncio.

    Args:
        open_session: the session to use; raises where there is none any more.
        call: the request.
        timeout_s: limit for the whole stream.
        address: where it goes.
    """

    def __init__(
        self,
        open_session: Callable[[], aiohttp.ClientSession],
        call: InferCall,
        timeout_s: float | None,
        address: Address,
    ) -> None:
        self._open_session = open_session
        self._path = f"/v2/models/{quote(call.model, safe='')}/generate_stream"
        self._body = _body(call, timeout_s)
        self._timeout_s = timeout_s
        self._address = address
        self._start_s = 0.0
        self._response: aiohttp.ClientResponse | None = None
        self._events = EventReader()
        self._ready: deque[bytes] = deque()
        self._count = 0
        self._is_final: bool | None = None  # unless the server says so: the generate extension does not ask for it
        self._is_cancelled = False

    async def read(self) -> InferAnswer | None:
        """Wait for the next answer; ``None`` after the last."""
        try:
            return await self._read()
        except BaseException as error:
            was_cancelled = self._is_cancelled
            self.cancel()
            if was_cancelled and not isinstance(error, asyncio.CancelledError):
                raise closed_error(self._address) from error
            raise

    async def _read(self) -> InferAnswer | None:
        if self._response is None:
            self._response = await self._open()
            if self._is_cancelled:  # meanwhile
                raise closed_error(self._address)
        while not self._ready:
            with typed_errors(self._address, self._timeout_s, self._start_s):
                received = await self._response.content.readany()
            if not received:
                self._check_end()
                return None
            self._ready.extend(self._events.feed(received))
        document = parse_event(self._ready.popleft())
        if "error" in document:
            raise error_from_event(document)
        self._count += 1
        answer = answer_of(document)
        if FINAL_PARAMETER in answer.parameters:
            self._is_final = bool(answer.parameters[FINAL_PARAMETER])
        return answer

    async def _open(self) -> aiohttp.ClientResponse:
        session = self._open_session()
        self._start_s = asyncio.get_running_loop().time()
        with typed_errors(self._address, self._timeout_s, self._start_s):
            response = await session.post(
                f"{self._address}{self._path}",
                data=self._body,
                headers={"content-type": "application/json", "accept": "text/event-stream"},
                timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                allow_redirects=False,
            )
            if response.status == 200:
                return response
            async with response:
                told = await response.read()
        raise error_from_http(
            response.status, told, retry_after=response.headers.get("Retry-After"), address=str(self._address)
        )

    def _check_end(self) -> None:
        if self._is_cancelled:
            raise closed_error(self._address)
        if not self._events.is_between_events:
            raise ConnectionFailed(f"{self._address} broke the stream off in the middle of a piece")
        if self._is_final is False:
            # what a proxy that reads HTTP/1.0 makes of a connection that broke
            raise ConnectionFailed(f"{self._address} ended the stream before its last piece")
        if not self._count:
            raise BadResponse(f"{self._address} answered 200, but not with server-sent events")

    def cancel(self) -> None:
        """End the request at the server, by closing the connection unless the answer is complete."""
        self._is_cancelled = True
        if self._response is not None:
            self._response.close()


class HttpAnswerStream:
    """One request, for blocking code: the asyncio stream on the transport's event loop."""

    def __init__(self, thread: LoopThread, asynchronous: AsyncHttpAnswerStream, run: Callable[[Any], Any]) -> None:
        self._thread = thread
        self._asynchronous = asynchronous
        self._run = run

    def read(self) -> InferAnswer | None:
        """Wait for the next answer; ``None`` after the last."""
        answer: InferAnswer | None = self._run(self._asynchronous.read())
        return answer

    def cancel(self) -> None:
        """End the request at the server."""
        self._thread.call_soon(self._asynchronous.cancel)
