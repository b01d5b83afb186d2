"""Pieces on their way to the client: which one is the last, and clients that do not take them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.parameters import EMPTY_FINAL_PARAMETER, empty_final_flag, plain_value
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import Cancelled

FINAL_PARAMETER = "triton_final_response"


def take_empty_final(request: Any) -> bool:
    """Take the wish for an empty last response out of a ``ModelInferRequest``.

    Raises:
        InvalidArgument: it is not a bool.
    """
    if EMPTY_FINAL_PARAMETER not in request.parameters:
        return False
    return empty_final_flag(plain_value(request.parameters.pop(EMPTY_FINAL_PARAMETER)))


def marked(response: Any, *, is_last: bool, wants_empty_final: bool) -> list[Any]:
    """What is sent for a piece: its ``ModelInferResponse``, and an empty one behind the last piece if that was asked.

    Each says in a parameter whether it is the last, so that a stream that was cut off is never taken for a whole one.
    """
    responses = [response]
    if is_last and wants_empty_final:
        names = {"model_name": response.model_name, "model_version": response.model_version, "id": response.id}
        responses.append(pb.ModelInferResponse(**names))
    for index, each in enumerate(responses):
        each.parameters[FINAL_PARAMETER].bool_param = is_last and index == len(responses) - 1
    return responses


async def taken(writing: asyncio.Task[None], record: RequestRecord, stall_timeout_s: float) -> None:
    """Wait until the transport has taken what is written.

    A stream holds a place for as long as its client takes its time: not for ever, or some clients that stopped reading
    would keep all others out. If the wait ends before the write, the write is left as it is, since neither gRPC nor
    aiohttp can write again after one that was cancelled; it is cancelled with this call.

    Args:
        writing: the write.
        record: of the request.
        stall_timeout_s: longest wait after a player would have played all that was sent; 0 for any.

    Raises:
        DeadlineExceeded: the request's deadline passed first.
        Cancelled: the client took nothing for too long.
        Exception: from the write.
    """
    # a write that nobody waits for any more may well fail
    writing.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    now_s = time.monotonic()
    stalls_s = max(now_s, record.played_until_s or now_s) + stall_timeout_s if stall_timeout_s else None
    ends = [moment_s for moment_s in (record.deadline_s, stalls_s) if moment_s is not None]
    try:
        await asyncio.wait((writing,), timeout=max(min(ends) - now_s, 0.0) if ends else None)
    except asyncio.CancelledError:
        writing.cancel()
        raise
    if writing.done():
        if record.is_late and isinstance(writing.exception(), Cancelled):
            raise record.deadline_error()  # gRPC ends a call at its deadline before any timer here fires
        return writing.result()
    if record.deadline_s is not None and record.deadline_s == min(ends):
        raise record.deadline_error()
    raise Cancelled(f"the client has taken nothing for {stall_timeout_s:g} s, with all that it was sent played by then")
