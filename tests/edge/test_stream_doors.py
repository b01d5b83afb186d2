"""Streams through the doors, as unmodified clients meet them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import grpc.aio
import numpy as np
import pytest
import tritonclient.grpc.aio as tga
from aiohttp import web
from tritonclient.grpc import service_pb2_grpc as rpc

from voxrepo.edge.grpc_front import GrpcFront
from voxrepo.edge.http_front import HttpFront
from voxrepo.edge.table import Problem
from voxrepo.metrics.accounting import Accountant
from voxrepo.metrics.registry import EdgeMetrics

from .fake_stages import VOICE, Rig, audio_of, request_for, rig, whole_audio

STREAM = f"{VOICE}.stream"
TEXT = "a first sentence that needs some windows of the vocoder. and another"
EMPTY_FINAL = "triton_enable_empty_final_response"


@dataclass
class Doors:
    rig: Rig
    metrics: EdgeMetrics
    grpc: str
    http: str

    def counted(self, **labels: str) -> float:
        return sum(
            sample.value
            for metric in self.metrics.requests.collect()
            for sample in metric.samples
            if sample.name.endswith("_total") and labels.items() <= sample.labels.items()
        )


@asynccontextmanager
async def doors(folder: Path) -> AsyncIterator[Doors]:
    async with rig(folder) as place:
        metrics = EdgeMetrics()
        accountant = Accountant(metrics, place.plane.is_model)
        door = GrpcFront(place.plane, accountant, 1_000_000)
        port = door.listen("127.0.0.1", 0)
        await door.start()
        app = HttpFront(place.plane, accountant, 1_000_000).application()
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield Doors(place, metrics, f"127.0.0.1:{port}", f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()
            await door.close()


async def ask(target: str, *requests: Any) -> list[Any]:
    """All responses to some requests on one stream."""
    async with grpc.aio.insecure_channel(target) as channel:
        return [response async for response in rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(requests))]


def is_final(response: Any) -> bool:
    return bool(response.infer_response.parameters["triton_final_response"].bool_param)


async def test_the_last_piece_is_final(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        responses = await ask(place.grpc, request_for(TEXT, request_id="a"))
        assert [is_final(response) for response in responses] == [False] * (len(responses) - 1) + [True]
        assert len(responses) > 2
        joined = np.concatenate([audio_of(response.infer_response) for response in responses])
        np.testing.assert_array_equal(joined, whole_audio(TEXT, 5, place.rig.stages.entry))
        assert place.counted(model=STREAM, protocol="grpc_stream", outcome="ok") == 1 == place.counted()


async def test_an_empty_final_response_comes_when_asked_for(tmp_path: Path) -> None:
    request = request_for(TEXT, request_id="a")
    request.parameters[EMPTY_FINAL].bool_param = True
    async with doors(tmp_path) as place:
        *pieces, final = await ask(place.grpc, request)
    assert pieces
    assert not any(is_final(piece) for piece in pieces)
    assert is_final(final)
    assert (final.infer_response.id, final.infer_response.model_name) == ("a", STREAM)
    assert not final.infer_response.outputs
    assert not final.error_message


async def test_a_voice_itself_gives_one_final_answer_on_a_stream(tmp_path: Path) -> None:
    request = request_for(TEXT, model=VOICE)
    request.parameters[EMPTY_FINAL].bool_param = True
    async with doors(tmp_path) as place:
        (only,) = await ask(place.grpc, request)
        assert is_final(only)
        np.testing.assert_array_equal(audio_of(only.infer_response), whole_audio(TEXT, 5, place.rig.stages.entry))


async def test_requests_on_one_stream_run_side_by_side_and_are_told_apart_by_id(tmp_path: Path) -> None:
    texts = {f"r{number}": f"{'words and ' * number}the end. {number}" for number in range(1, 6)}
    requests = [request_for(text, seed=number, request_id=key) for number, (key, text) in enumerate(texts.items())]
    async with doors(tmp_path) as place:
        place.rig.stages.delays_s["vocoder"] = 0.01
        responses = await ask(place.grpc, *requests)
        ids = [response.infer_response.id for response in responses]
        assert ids != sorted(ids)
        for seed, (key, text) in enumerate(texts.items()):
            own = [response for response in responses if response.infer_response.id == key]
            assert [is_final(response) for response in own] == [False] * (len(own) - 1) + [True]
            joined = np.concatenate([audio_of(response.infer_response) for response in own])
            np.testing.assert_array_equal(joined, whole_audio(text, seed, place.rig.stages.entry))


async def test_an_error_tells_whose_it_is_and_leaves_the_other_requests_alone(tmp_path: Path) -> None:
    bad = request_for("", request_id="bad")
    async with doors(tmp_path) as place:
        responses = await ask(place.grpc, bad, request_for(TEXT, request_id="good"))
    (error,) = [response for response in responses if response.error_message]
    assert error.error_message.startswith("input 'text' is empty")
    assert error.infer_response.id == "bad"
    assert is_final(responses[-1])


def late_fault(stage: str, request: Any) -> tuple[grpc.StatusCode, str] | None:
    late = stage == "vocoder" and request.parameters["keep_from_frame"].int64_param > 0
    return (grpc.StatusCode.INTERNAL, "secret path") if late else None


async def test_a_fault_after_the_first_piece_ends_in_an_error_over_grpc(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        place.rig.stages.fault = late_fault
        first, error = await ask(place.grpc, request_for(TEXT, request_id="a"))
        assert not first.error_message
        assert not is_final(first)
        assert error.error_message.startswith("internal error, id ")
        assert error.infer_response.id == "a"
        assert place.counted(outcome="failed", code="INTERNAL") == 1 == place.counted()


async def test_a_fault_after_the_first_piece_is_an_event_over_http(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        place.rig.stages.fault = late_fault
        status, (first, error) = await events(place, {"text": TEXT})
        assert status == 200
        assert len(first["audio"]) > 10
        assert error["error"].startswith("internal error, id ")
        assert error == {"error": error["error"], "code": "INTERNAL"}
        assert place.counted(outcome="failed", protocol="generate_stream") == 1 == place.counted()


async def events(place: Doors, body: dict[str, Any], model: str = STREAM) -> tuple[int, list[dict[str, Any]]]:
    url = f"{place.http}/v2/models/{model}/generate_stream"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        raw = await answer.read()
    assert raw.endswith(b"\n\n")
    return answer.status, [json.loads(event.removeprefix(b"data: ")) for event in raw.split(b"\n\n")[:-1]]


@pytest.mark.parametrize("path", [STREAM, f"{STREAM}/versions/1"])
async def test_http_gives_an_event_per_piece(tmp_path: Path, path: str) -> None:
    async with doors(tmp_path) as place:
        status, pieces = await events(place, {"id": "a", "text": TEXT, "seed": 5}, path)
        assert status == 200
        joined = [sample for piece in pieces for sample in piece["audio"]]
        np.testing.assert_array_equal(np.array(joined), whole_audio(TEXT, 5, place.rig.stages.entry))
        assert len(pieces) > 2
        for piece in pieces:
            assert (piece["id"], piece["model_name"], piece["sample_rate"], piece["seed"]) == ("a", STREAM, 22050, 5)
        assert place.counted(model=STREAM, protocol="generate_stream", outcome="ok") == 1 == place.counted()


async def test_http_gives_one_event_for_the_voice_itself(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        _, (only,) = await events(place, {"text": TEXT, "seed": 5}, VOICE)
        np.testing.assert_array_equal(np.array(only["audio"]), whole_audio(TEXT, 5, place.rig.stages.entry))


async def test_http_errors_before_the_first_piece_keep_their_status(tmp_path: Path) -> None:
    async with doors(tmp_path) as place, aiohttp.ClientSession() as session:
        for path, body, status in [
            (f"{STREAM}/generate_stream", {"text": ""}, 400),
            (f"{STREAM}/generate_stream", {"text": "a", "speeed": 2}, 400),
            (f"{STREAM}/versions/7/generate_stream", {"text": "a"}, 404),
            (f"{STREAM}/generate", {"text": "a"}, 400),
            (f"{STREAM}/infer", {"inputs": []}, 400),
        ]:
            async with session.post(f"{place.http}/v2/models/{path}", json=body) as answer:
                assert (answer.status, answer.content_type) == (status, "application/json"), path
                assert "error" in await answer.json()


async def test_a_client_that_leaves_stops_the_calls_over_http(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        place.rig.stages.delays_s["vocoder"] = 0.1
        url = f"{place.http}/v2/models/{STREAM}/generate_stream"
        async with aiohttp.ClientSession() as session:
            answer = await session.post(url, json={"text": TEXT})
            await answer.content.readline()
            answer.close()
        await stops(place)
        assert place.counted(outcome="cancelled") == 1 == place.counted()


async def test_a_client_that_cancels_stops_the_calls_over_grpc(tmp_path: Path) -> None:
    async with doors(tmp_path) as place, grpc.aio.insecure_channel(place.grpc) as channel:
        place.rig.stages.delays_s["vocoder"] = 0.1
        call = rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request_for(TEXT)]))
        await call.read()
        call.cancel()
        await stops(place)
        assert place.counted(outcome="cancelled") == 1 == place.counted()


async def stops(place: Doors) -> None:
    """Wait until the cancel has arrived; then at most what runs may end."""
    await place.rig.until(lambda: place.counted() > 0)
    begun = len(place.rig.stages.calls)
    await place.rig.until(lambda: place.rig.engine.gates.total(lambda gate: gate.running) == 0)
    await asyncio.sleep(0.2)
    assert len(place.rig.stages.calls) == begun


async def test_a_reader_that_does_not_read_stops_the_calls(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        stages = place.rig.stages
        # pieces of a megabyte fill every buffer on the way
        stages.entry = stages.entry.model_copy(update={"hop_length_samples": 30_000})
        place.rig.tables.table.voices[VOICE] = stages.entry
        options = [("grpc.http2.lookahead_bytes", 1), ("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(place.grpc, options) as channel:
            call = rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request_for("abcdefghij" * 19)]))
            await call.read()
            await asyncio.sleep(0.5)
            begun = stages.count("vocoder")
            await asyncio.sleep(0.5)
            assert stages.count("vocoder") == begun <= 6
            others = await ask(place.grpc, request_for("me too"))
            assert is_final(others[-1])
            call.cancel()


async def test_tritonclient_streams(tmp_path: Path) -> None:
    async with doors(tmp_path) as place, tga.InferenceServerClient(place.grpc) as client:
        text = tga.InferInput("text", [1, 1], "BYTES")
        text.set_data_from_numpy(np.array([[TEXT.encode()]], dtype=np.object_))
        seed = tga.InferInput("seed", [1, 1], "INT64")
        seed.set_data_from_numpy(np.array([[5]]))

        async def requests() -> AsyncIterator[dict[str, Any]]:
            yield {"model_name": STREAM, "inputs": [text, seed], "request_id": "a"}

        parts = []
        async for result, error in client.stream_infer(requests()):
            assert error is None
            parts.append(result.as_numpy("audio"))
            assert result.get_response().id == "a"
        assert len(parts) > 2
        np.testing.assert_array_equal(np.concatenate(parts, axis=1)[0], whole_audio(TEXT, 5, place.rig.stages.entry))


async def test_a_stop_lets_streams_finish_and_refuses_new_ones(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        place.rig.stages.delays_s["vocoder"] = 0.05
        asked = asyncio.create_task(ask(place.grpc, request_for(TEXT)))
        await place.rig.until(lambda: place.rig.stages.count("vocoder") > 0)
        place.rig.plane.stopped.set()
        url = f"{place.http}/v2/models/{STREAM}/generate_stream"
        async with aiohttp.ClientSession() as session, session.post(url, json={"text": "a"}) as answer:
            assert answer.status == 503
            assert "the server is stopping" in (await answer.json())["error"]
        assert is_final((await asked)[-1])


async def test_http_says_which_piece_is_the_last(tmp_path: Path) -> None:
    async with doors(tmp_path) as place:
        _, pieces = await events(place, {"text": TEXT})
        assert [piece["triton_final_response"] for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        _, asked = await events(place, {"text": TEXT, EMPTY_FINAL: True, "id": "a"})
        assert [piece["triton_final_response"] for piece in asked] == [False] * len(pieces) + [True]
        assert "audio" in asked[-2]
        assert asked[-1] == {"model_name": STREAM, "model_version": "1", "id": "a", "triton_final_response": True}


@pytest.mark.parametrize("path", [f"{STREAM}/generate_stream", f"{VOICE}/generate", f"{VOICE}/generate_stream"])
async def test_http_refuses_a_wish_for_the_empty_final_that_is_no_bool(tmp_path: Path, path: str) -> None:
    async with (
        doors(tmp_path) as place,
        aiohttp.ClientSession(place.http) as session,
        session.post(f"/v2/models/{path}", json={"text": TEXT, EMPTY_FINAL: "yes"}) as answer,
    ):
        assert answer.status == 400
        assert "must be true or false" in (await answer.json())["error"]


@pytest.mark.parametrize(
    "absent",
    [{"loading": [VOICE]}, {"problems": [Problem(model=VOICE, reason="its probe was silent")]}],
    ids=["loading", "broken"],
)
async def test_the_stream_of_a_voice_that_is_not_there_yet_may_be_asked_for_again(
    tmp_path: Path, absent: dict[str, Any]
) -> None:
    async with doors(tmp_path) as place:
        tables = place.rig.tables
        tables.table = tables.table.model_copy(update={"voices": {}, **absent})
        (over_grpc,) = await ask(place.grpc, request_for(TEXT, request_id="a"))
        assert over_grpc.infer_response.parameters["error_code"].string_param == "UNAVAILABLE"
        (unary,) = await ask(place.grpc, request_for(TEXT, model=VOICE))
        assert unary.error_message == over_grpc.error_message.replace(STREAM, VOICE)


async def test_asking_for_the_empty_final_takes_a_bool(tmp_path: Path) -> None:
    request = request_for(TEXT)
    request.parameters[EMPTY_FINAL].string_param = "yes"
    async with doors(tmp_path) as place:
        (answer,) = await ask(place.grpc, request)
        assert "must be true or false" in answer.error_message
