"""ModelStreamInfer: many requests on one stream, each answered by one response through the data plane."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc.aio
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.dataplane import DataPlane
from voxrepo.edge.parameters import EMPTY_FINAL_PARAMETER
from voxrepo.edge.statuses import grpc_status
from voxrepo.edge.wire import parsed, serialize_stream_response
from voxrepo.metrics.accounting import Accountant
from voxrepo_contract.errors import VoxrepoError

log = logging.getLogger(__name__)

PROTOCOL = "grpc_stream"
MAX_CONCURRENT = 16
"""Requests of one stream that are served at a time; the next is read when one of them is answered."""

_FINAL_PARAMETER = "triton_final_response"


async def _answer(raw: bytes, left_s: float | None, plane: DataPlane, accountant: Accountant) -> bytes:
    """Serialised ``ModelStreamInferResponse`` to one request; errors are told in it."""
    try:
        with accountant.request("", PROTOCOL) as record:
            record.limit(left_s)
            request = parsed(pb.ModelInferRequest, raw)
            record.model = request.model_name
            request.parameters.pop(EMPTY_FINAL_PARAMETER, None)
            response = await plane.infer(request, record)
            response.parameters[_FINAL_PARAMETER].bool_param = True
            return serialize_stream_response(response)
    except VoxrepoError as error:
        answer = pb.ModelStreamInferResponse(error_message=grpc_status(error)[1])
        return bytes(answer.SerializeToString())


class _Stream:
    """One client's stream."""

    def __init__(self, context: Any, plane: DataPlane, accountant: Accountant) -> None:
        self._context = context
        self._plane = plane
        self._accountant = accountant
        self._places = asyncio.Semaphore(MAX_CONCURRENT)
        self._write_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def _serve(self, raw: bytes) -> None:
        try:
            answer = await _answer(raw, self._context.time_remaining(), self._plane, self._accountant)
            async with self._write_lock:  # gRPC allows one write at a time
                await self._context.write(answer)
        except (grpc.aio.UsageError, grpc.aio.InternalError) as error:
            log.debug("an answer could not be written, the client has left: %s", error)
        finally:
            self._places.release()

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
        """The next request; None at the stream's end or when the server stops."""
        reading = asyncio.ensure_future(self._context.read())
        try:
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return None
            message = reading.result()
            return None if message is grpc.aio.EOF else bytes(message)
        finally:
            reading.cancel()


async def serve_stream(context: Any, plane: DataPlane, accountant: Accountant) -> None:
    """Serve one stream until the client ends it, leaves, or the server stops.

    Args:
        context: gRPC's servicer context; messages are read and written as bytes.
        plane: the server behind.
        accountant: counts the inferences.
    """
    await _Stream(context, plane, accountant).run()
