"""ModelStreamInfer: many requests on one stream, told apart by their ids.

A request to a voice's stream gets a response for each piece of audio, any other request exactly one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

import grpc.aio
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.dataplane import DataPlane
from voxrepo.edge.delivery import marked, take_empty_final, taken
from voxrepo.edge.statuses import grpc_status, retry_after_s
from voxrepo.edge.wire import parsed, serialize_stream_response
from voxrepo.metrics.accounting import Accountant
from voxrepo_contract.errors import Cancelled, VoxrepoError

PROTOCOL = "grpc_stream"
MAX_CONCURRENT = 16
"""Requests of one stream that are served at a time; the next is read when one of them is answered."""

Write = Callable[[bytes], Coroutine[Any, Any, None]]


async def _answer(
    raw: bytes,
    left_s: float | None,
    plane: DataPlane,
    accountant: Accountant,
    write: Write,
    routing_key: Callable[[], str],
) -> None:
    """Answer one request with serialised ``ModelStreamInferResponse`` messages; errors in one with its id.

    Cancelling the call drops the request.
    """
    request_id = ""
    try:
        with accountant.request("", PROTOCOL) as record:
            record.limit(left_s)
            record.routing_key = routing_key()
            request = parsed(pb.ModelInferRequest, raw)
            record.model, request_id = request.model_name, request.id
            wants_empty_final = take_empty_final(request)

            async def hand_over(piece: Any, is_last: bool, empty: bool) -> None:
                for each in marked(piece, is_last=is_last, wants_empty_final=empty):
                    writing = asyncio.create_task(write(serialize_stream_response(each)))
                    await taken(writing, record, plane.stall_timeout_s)

            if plane.voice_of_stream(request.model_name) is None:
                await hand_over(await plane.infer(request, record), is_last=True, empty=False)
                return
            async with aclosing(plane.stream(request, record)) as responses:
                async for response, is_last in responses:
                    await hand_over(response, is_last, wants_empty_final)
    except VoxrepoError as error:
        code, text = grpc_status(error)
        answer = pb.ModelStreamInferResponse(error_message=text)
        answer.infer_response.id = request_id
        # an error message has no status of its own
        answer.infer_response.parameters["error_code"].string_param = code.name
        seconds = retry_after_s(error)
        if seconds is not None:
            answer.infer_response.parameters["retry_after_s"].int64_param = seconds
        with suppress(Cancelled):
            await write(bytes(answer.SerializeToString()))


class _Stream:
    """One client's stream."""

    def __init__(self, context: Any, plane: DataPlane, accountant: Accountant, routing_key: Callable[[], str]) -> None:
        self._context = context
        self._plane = plane
        self._accountant = accountant
        self._routing_key = routing_key
        self._places = asyncio.Semaphore(MAX_CONCURRENT)
        self._write_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, raw: bytes) -> None:
        try:
            left_s = self._context.time_remaining()
            await _answer(raw, left_s, self._plane, self._accountant, self._write, self._routing_key)
        finally:
            self._places.release()

    async def _write(self, message: bytes) -> None:
        async with self._write_lock:  # gRPC allows one write at a time
            try:
                # returns when the transport has room for more: the engine works no faster than a client reads
                await self._context.write(message)
            except (grpc.aio.UsageError, grpc.aio.InternalError) as error:
                raise Cancelled("the client has left") from error

    async def run(self) -> None:
        stopping = asyncio.create_task(self._plane.stopped.wait())
        try:
            while True:
                await self._places.acquire()
                raw = await self._next(stopping)
                if raw is None:
                    break
                task = asyncio.create_task(self._serve(raw))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            await asyncio.gather(*self._tasks)
        finally:
            stopping.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _next(self, stopping: asyncio.Task[bool]) -> bytes | None:
        """The next request; None at the stream's end.

        While the server stops, further requests are read and refused one by one, until those before are answered.

        Raises:
            Unavailable: the server stops, and nothing is left to be answered.
        """
        reading = asyncio.ensure_future(self._context.read())
        try:
            while not reading.done():
                if stopping.done() and not self._tasks:
                    self._plane.refuse_if_stopping()
                events = self._tasks if stopping.done() else {stopping}
                await asyncio.wait({reading, *events}, return_when=asyncio.FIRST_COMPLETED)
            message = reading.result()
            return None if message is grpc.aio.EOF else bytes(message)
        finally:
            reading.cancel()


async def serve_stream(
    context: Any, plane: DataPlane, accountant: Accountant, routing_key: Callable[[], str] = lambda: ""
) -> None:
    """Serve one stream until the client ends it or leaves.

    Args:
        context: gRPC's servicer context; messages are read and written as bytes.
        plane: the server behind.
        accountant: counts the inferences.
        routing_key: key in the stream's metadata, for all requests on it that bring none of their own.

    Raises:
        Unavailable: the server stops, the client has not ended the stream, and its requests are answered.
    """
    await _Stream(context, plane, accountant, routing_key).run()
