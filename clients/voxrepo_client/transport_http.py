"""The HTTP transports: bodies made and read by tritonclient, carried by aiohttp.

tritonclient's own HTTP clients throw away the response headers (``Retry-After``) and cannot limit the time of a
single call, hence only its ``generate_request_body`` and ``parse_response_body`` are used.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import tritonclient.http
from tritonclient.utils import InferenceServerException

from voxrepo_client.address import Address
from voxrepo_client.errors import BadResponse, ClientClosed
from voxrepo_client.http_errors import typed_errors
from voxrepo_client.loop_thread import LoopThread
from voxrepo_client.protocol import DTYPES, InferAnswer, InferCall, timeout_us
from voxrepo_client.status import error_from_http
from voxrepo_client.stream_http import AsyncHttpAnswerStream, HttpAnswerStream
from voxrepo_client.transport import CONNECT_TIMEOUT_S, closed_error

_HEADER_LENGTH = "Inference-Header-Content-Length"


def _request_body(call: InferCall, timeout_s: float | None) -> tuple[bytes, dict[str, str]]:
    tensors = []
    for name, array in call.inputs.items():
        tensor = tritonclient.http.InferInput(name, list(array.shape), DTYPES[name])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    body, json_bytes = tritonclient.http.InferenceServerClient.generate_request_body(
        tensors, timeout=timeout_us(timeout_s), parameters=dict(call.parameters) or None
    )
    return body, {} if json_bytes is None else {_HEADER_LENGTH: str(json_bytes)}


def _answer(body: bytes, header_length: str | None, address: Address) -> InferAnswer:
    try:
        result = tritonclient.http.InferenceServerClient.parse_response_body(
            body, header_length=None if header_length is None else int(header_length)
        )
        response = result.get_response()
        outputs = {output["name"]: result.as_numpy(output["name"]) for output in response["outputs"]}
        return InferAnswer(outputs, dict(response.get("parameters") or {}))
    except (ValueError, KeyError, TypeError, AttributeError, InferenceServerException) as error:
        raise BadResponse(
            f"{address} answered 200, but not with an inference response ({type(error).__name__}: {error})"
        ) from error


class AsyncHttpTransport:
    """For asyncio; keeps connections alive, as many as there are calls at once."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self._address = address
        # audio does not shrink, compressing it only costs both sides time
        self._headers = {"accept-encoding": "identity", **headers}
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._streams: weakref.WeakSet[AsyncHttpAnswerStream] = weakref.WeakSet()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise closed_error(self._address)
        loop = asyncio.get_running_loop()
        if self._session is None:
            self._loop = loop
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=self._headers)
        elif loop is not self._loop:
            raise ClientClosed(f"the client of {self._address} belongs to another event loop; make one per loop")
        return self._session

    async def _fetch(
        self,
        method: str,
        path: str,
        timeout_s: float | None,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bytes, Mapping[str, str]]:
        session = self._open()
        limit = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        loop = asyncio.get_running_loop()
        try:
            with typed_errors(self._address, timeout_s, loop.time()):
                async with session.request(
                    method,
                    f"{self._address}{path}",
                    data=body or None,
                    headers=headers,
                    timeout=limit,
                    allow_redirects=False,
                ) as response:
                    received = await response.read()
        except RuntimeError as error:  # aiohttp's word for a session that was closed meanwhile
            if self._closed:
                raise closed_error(self._address) from error
            raise
        if response.status != 200:
            raise error_from_http(
                response.status,
                received,
                retry_after=response.headers.get("Retry-After"),
                address=str(self._address),
            )
        return received, response.headers

    async def _fetch_json(self, method: str, path: str, timeout_s: float | None) -> Any:
        body, _ = await self._fetch(method, path, timeout_s)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise BadResponse(f"{self._address}{path} answered 200, but not with JSON: {error}") from error

    async def _fetch_object(self, path: str, timeout_s: float | None) -> dict[str, Any]:
        parsed = await self._fetch_json("GET", path, timeout_s)
        if not isinstance(parsed, dict):
            raise BadResponse(f"{self._address}{path} answered with something else than a JSON object")
        return parsed

    async def infer(self, call: InferCall, timeout_s: float | None) -> InferAnswer:
        """Send one request and wait for its answer."""
        body, headers = _request_body(call, timeout_s)
        path = f"/v2/models/{quote(call.model, safe='')}/infer"
        received, answered = await self._fetch("POST", path, timeout_s, body, headers)
        return _answer(received, answered.get(_HEADER_LENGTH), self._address)

    def stream(self, call: InferCall, timeout_s: float | None) -> AsyncHttpAnswerStream:
        """One request that is answered in pieces."""
        stream = AsyncHttpAnswerStream(self._open, call, timeout_s, self._address)
        self._streams.add(stream)
        return stream

    async def index(self, timeout_s: float | None) -> list[dict[str, Any]]:
        """The repository index."""
        parsed = await self._fetch_json("POST", "/v2/repository/index", timeout_s)
        if not isinstance(parsed, list) or not all(isinstance(entry, dict) for entry in parsed):
            raise BadResponse(f"{self._address} answered with something else than a repository index")
        return parsed

    async def metadata(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Metadata of a model."""
        return await self._fetch_object(f"/v2/models/{quote(model, safe='')}", timeout_s)

    async def config(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Configuration of a model."""
        return await self._fetch_object(f"/v2/models/{quote(model, safe='')}/config", timeout_s)

    async def close(self) -> None:
        """Free the connections; calls in flight end with an error."""
        self._closed = True
        for stream in list(self._streams):  # aiohttp would leave whoever reads one waiting
            stream.cancel()
        if self._session is not None:
            await self._session.close()


def _end(thread: LoopThread, transport: AsyncHttpTransport) -> None:
    thread.close(transport.close())


class HttpTransport:
    """Blocking: the asyncio transport on an event loop in a thread of its own; shared by any number of threads."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self._address = address
        self._asynchronous = AsyncHttpTransport(address, headers)
        self._thread = LoopThread(f"voxrepo-client-{address.target}")
        # also ends the thread of a client that nobody closed
        self._end = weakref.finalize(self, _end, self._thread, self._asynchronous)

    def _run(self, coroutine: Any) -> Any:
        try:
            return self._thread.run(coroutine)
        except concurrent.futures.CancelledError as error:  # close() in another thread
            raise closed_error(self._address) from error

    def infer(self, call: InferCall, timeout_s: float | None) -> InferAnswer:
        """Send one request and wait for its answer."""
        answer: InferAnswer = self._run(self._asynchronous.infer(call, timeout_s))
        return answer

    def stream(self, call: InferCall, timeout_s: float | None) -> HttpAnswerStream:
        """One request that is answered in pieces."""
        return HttpAnswerStream(self._thread, self._asynchronous.stream(call, timeout_s), self._run)

    def index(self, timeout_s: float | None) -> list[dict[str, Any]]:
        """The repository index."""
        entries: list[dict[str, Any]] = self._run(self._asynchronous.index(timeout_s))
        return entries

    def metadata(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Metadata of a model."""
        found: dict[str, Any] = self._run(self._asynchronous.metadata(model, timeout_s))
        return found

    def config(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Configuration of a model."""
        found: dict[str, Any] = self._run(self._asynchronous.config(model, timeout_s))
        return found

    def close(self) -> None:
        """Free the connections and end the thread; calls in flight end with an error."""
        self._end()
