"""Streams whose clients stop reading: they keep their place for a while, not for ever."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tritonclient.grpc import service_pb2_grpc as rpc

from voxrepo.edge import http_events
from voxrepo.edge.admission import AdmissionLimits
from voxrepo.edge.delivery import taken
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import Cancelled, DeadlineExceeded

from .fake_stages import VOICE, request_for
from .test_stream_doors import STREAM, Doors, ask, doors, is_final

LONG = "abcdefghij" * 19


@asynccontextmanager
async def small_house(folder: Path, stall_timeout_s: float) -> AsyncIterator[Doors]:
    """Doors for one stream at a time, whose pieces of a megabyte fill every buffer on the way."""
    async with doors(folder) as place:
        stages = place.rig.stages
        # the rate is that high so that a player would be done with them at once
        stages.entry = stages.entry.model_copy(update={"hop_length_samples": 30_000, "sample_rate_hz": 22_050_000})
        place.rig.tables.table.voices[VOICE] = stages.entry
        place.rig.plane.use_limits(AdmissionLimits(0.0, 1, 0, 0.0, stall_timeout_s))
        yield place


@asynccontextmanager
async def stalled_over_grpc(place: Doors, **parameters: int) -> AsyncIterator[None]:
    request = request_for(LONG)
    for name, value in parameters.items():
        request.parameters[name].int64_param = value
    options = [("grpc.http2.lookahead_bytes", 1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(place.grpc, options) as channel:
        call = rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]))
        await call.read()
        yield
        call.cancel()


@asynccontextmanager
async def stalled_over_http(place: Doors, **parameters: int) -> AsyncIterator[None]:
    host, port = place.http.removeprefix("http://").split(":")
    body = json.dumps({"text": LONG, **parameters}).encode()
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    head = f"POST /v2/models/{STREAM}/generate_stream HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.readline()
    yield
    writer.close()


STALLED: list[Any] = [pytest.param(stalled_over_grpc, id="grpc"), pytest.param(stalled_over_http, id="http")]


@pytest.mark.parametrize("stalled", STALLED)
async def test_a_client_that_reads_nothing_loses_its_place(tmp_path: Path, stalled: Any) -> None:
    async with small_house(tmp_path, 0.5) as place, stalled(place):
        (refused,) = await ask(place.grpc, request_for("hi"))
        assert "1 streams are being served" in refused.error_message
        await place.rig.until(lambda: place.counted(outcome="cancelled") == 1)
        assert is_final((await ask(place.grpc, request_for("hi")))[-1])


@pytest.mark.parametrize("stalled", STALLED)
async def test_the_deadline_ends_a_stream_that_nobody_reads(tmp_path: Path, stalled: Any) -> None:
    async with small_house(tmp_path, 0.0) as place, stalled(place, timeout=500_000):
        await place.rig.until(lambda: place.counted(outcome="timed_out", code="DEADLINE_EXCEEDED") == 1)
        assert is_final((await ask(place.grpc, request_for("hi")))[-1])


async def test_a_connection_that_takes_not_even_the_error_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_events, "FAREWELL_S", 0.2)
    async with small_house(tmp_path, 0.3) as place:
        host, port = place.http.removeprefix("http://").split(":")
        body = json.dumps({"text": LONG}).encode()
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        head = f"POST /v2/models/{STREAM}/generate_stream HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await place.rig.until(lambda: place.counted(outcome="cancelled") == 1)
        await asyncio.sleep(0.5)
        received = b""
        with pytest.raises(ConnectionError):
            while True:
                received = (received + await reader.read(1 << 20))[-5:]
                if reader.at_eof():
                    assert received != b"0\r\n\r\n", "ended as if it were whole"
                    raise ConnectionError
        writer.close()


async def never() -> None:
    await asyncio.Event().wait()


async def wait_for_taking(record: RequestRecord, stall_timeout_s: float) -> float:
    """Seconds until the wait for a write that takes for ever ended; its error is raised."""
    writing = asyncio.create_task(never())
    begun_s = time.monotonic()
    try:
        await taken(writing, record, stall_timeout_s)
    except Cancelled:
        assert not writing.done(), "after that nothing could be written any more"
        return time.monotonic() - begun_s
    finally:
        writing.cancel()
    raise AssertionError


async def test_who_has_audio_to_play_is_given_the_time_to_play_it() -> None:
    record = RequestRecord("m", "grpc_stream")
    assert 0.1 <= await wait_for_taking(record, 0.1) < 0.3
    record.piece(0.4)
    assert 0.45 <= await wait_for_taking(record, 0.1) < 0.7


async def test_the_deadline_counts_before_the_patience() -> None:
    record = RequestRecord("m", "grpc_stream")
    record.limit(0.1)
    with pytest.raises(DeadlineExceeded, match="timed out after 100 ms"):
        await wait_for_taking(record, 0.0)


async def test_whoever_waits_and_is_cancelled_takes_the_write_along() -> None:
    writing = asyncio.create_task(never())
    waiting = asyncio.create_task(taken(writing, RequestRecord("m", "http"), 0.0))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, writing, return_exceptions=True)
    assert waiting.cancelled()
    assert writing.cancelled()
