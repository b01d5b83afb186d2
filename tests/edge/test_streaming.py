"""Streams through the data plane, before an engine that answers by arithmetic."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from voxrepo.edge.pieces_plan import STREAM_GROUPS
from voxrepo.edge.streaming import SEGMENTS_AT_ONCE, SEGMENTS_BEHIND
from voxrepo.metrics.accounting import RequestRecord
from voxrepo_contract.errors import DeadlineExceeded, Internal, InvalidArgument, NotFound, Unavailable

from .fake_stages import PAUSE_MS, VOICE, Rig, audio_of, request_for, rig, whole_audio

TEXT = "a first sentence that needs some windows of the vocoder. and another. the last of them is not the shortest one"


def new_record() -> RequestRecord:
    return RequestRecord(f"{VOICE}.stream", "test")


async def streamed(place: Rig, text: str, seed: int = 5, record: RequestRecord | None = None) -> list[Any]:
    stream = place.plane.stream(request_for(text, seed, request_id="mine"), record or new_record())
    async with aclosing(stream) as pieces:
        return [piece async for piece in pieces]


@pytest.mark.parametrize("text", ["a", "ab.", "a. b. c", TEXT, ". ".join(["abcdefgh" * n for n in range(1, 6)])])
async def test_pieces_joined_are_the_unary_answer(tmp_path: Path, text: str) -> None:
    async with rig(tmp_path) as place:
        pieces = await streamed(place, text)
        unary = await place.plane.infer(request_for(text, model=VOICE), new_record())
    joined = np.concatenate([audio_of(response) for response, _ in pieces])
    np.testing.assert_array_equal(joined, whole_audio(text, 5, place.stages.entry))
    np.testing.assert_array_equal(joined, audio_of(unary))
    assert [last for _, last in pieces] == [False] * (len(pieces) - 1) + [True]


async def test_a_long_text_is_made_by_the_stages_and_joined(tmp_path: Path) -> None:
    text = "a sentence of a long text. " * 15
    async with rig(tmp_path) as place:
        place.tables.table.voices[VOICE] = place.stages.entry.model_copy(update={"max_text_chars": 1000})
        record = new_record()
        response = await place.plane.infer(request_for(text, model=VOICE, request_id="mine"), record)
        assert place.stages.count("ensemble") == 0
        assert place.stages.count("acoustic") == 15
    np.testing.assert_array_equal(audio_of(response), whole_audio(text, 5, place.stages.entry))
    assert (response.id, response.model_name, response.model_version) == ("mine", VOICE, "1")
    assert [output.name for output in response.outputs] == ["audio", "sample_rate"]
    assert response.parameters["seed"].int64_param == 5
    assert record.audio_s == pytest.approx(len(audio_of(response)) / 22050)


async def test_a_long_text_has_two_segments_in_the_making_and_more_when_it_is_behind(tmp_path: Path) -> None:
    text = "a sentence of a long text. " * 15
    most = {}
    for delay_s in (0.0, 0.15):
        async with rig(tmp_path) as place:
            place.tables.table.voices[VOICE] = place.stages.entry.model_copy(update={"max_text_chars": 1000})
            place.stages.delays_s["vocoder"] = delay_s
            response = await place.plane.infer(request_for(text, model=VOICE), new_record())
            most[delay_s] = place.stages.most["vocoder"]
        np.testing.assert_array_equal(audio_of(response), whole_audio(text, 5, place.stages.entry))
    assert most[0.0] <= SEGMENTS_AT_ONCE < most[0.15] <= SEGMENTS_BEHIND


async def test_a_fault_in_a_later_segment_ends_a_long_text(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        place.tables.table.voices[VOICE] = place.stages.entry.model_copy(update={"max_text_chars": 1000})

        def fault(stage: str, request: Any) -> tuple[grpc.StatusCode, str] | None:
            late = stage == "acoustic" and request.parameters["first_segment"].int64_param == 5
            return (grpc.StatusCode.INVALID_ARGUMENT, "too long") if late else None

        place.stages.fault = fault
        with pytest.raises(InvalidArgument, match="too long"):
            await place.plane.infer(request_for("a sentence of a text. " * 20, model=VOICE), new_record())
        assert place.stages.count("acoustic") <= 5 + SEGMENTS_BEHIND
        await place.until(lambda: place.engine.gates.total(lambda gate: gate.running) == 0)


async def test_the_front_end_runs_once_and_groups_grow(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        await streamed(place, "abcdefghij" * 15)
        calls = [request for stage, request in place.stages.calls if stage == "vocoder"]
        assert place.stages.count("text_frontend") == 1
        assert place.stages.count("acoustic") == 1
    entry = place.stages.entry
    frames = [sum(shape for shape in request.inputs[0].shape[1:2]) for request in calls]
    step = entry.window_frames - 2 * entry.overlap_frames
    assert frames[0] == entry.first_window_frames
    assert frames[1:4] == [entry.window_frames + (windows - 1) * step for windows in STREAM_GROUPS[1:]]
    assert set(frames[4:-1]) == {frames[3]}
    ids = [request.id for _, request in place.stages.calls]
    assert len(set(ids)) == len(ids)
    assert "mine" not in ids


async def test_every_response_says_what_makes_the_audio_again(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        record = new_record()
        pieces = await streamed(place, "waves~ of a~b. " + TEXT, record=record)
    for response, _ in pieces:
        assert (response.id, response.model_name) == ("mine", f"{VOICE}.stream")
        assert response.parameters["seed"].int64_param == 5
        assert response.parameters["arm"].string_param == "stable"
        assert json.loads(response.parameters["versions"].string_param) == place.stages.entry.versions
        assert json.loads(response.parameters["dropped"].string_param) == {"emoji": 2}
        assert [output.name for output in response.outputs] == ["audio", "sample_rate"]
    assert record.dropped == {"emoji": 2}
    assert record.audio_s == pytest.approx(sum(len(audio_of(response)) for response, _ in pieces) / 22050)


async def test_the_next_segment_is_prefetched_and_only_that_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        place.stages.delays_s["vocoder"] = 0.02
        async with aclosing(place.plane.stream(request_for(". ".join(["abcdefghij" * 4] * 4)), new_record())) as pieces:
            await pieces.__anext__()
            order = [stage for stage, _ in place.stages.calls]
            # nothing competes with the first piece
            assert order[:3] == ["text_frontend", "acoustic", "vocoder"]
            await asyncio.sleep(0.2)
            assert place.stages.count("acoustic") == 2
            rest = [piece async for piece in pieces]
            assert rest[-1][1]
        assert place.stages.count("acoustic") == 4
        # a segment is ready before the one in front of it has ended
        stages = [stage for stage, _ in place.stages.calls]
        for number in range(1, 4):
            at = [index for index, stage in enumerate(stages) if stage == "acoustic"][number]
            assert "vocoder" in stages[at + 1 :]
            assert place.stages.most["acoustic"] == 1
        assert place.stages.most["vocoder"] == 1


async def test_a_slow_reader_stops_the_engine_calls_one_piece_ahead(tmp_path: Path) -> None:
    async with (
        rig(tmp_path) as place,
        aclosing(place.plane.stream(request_for("abcdefghij" * 19), new_record())) as pieces,
    ):
        for taken in range(1, 4):
            await pieces.__anext__()
            await asyncio.sleep(0.1)
            assert place.stages.count("vocoder") == taken + 1


async def test_a_stream_that_is_closed_makes_no_further_call(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        place.stages.delays_s["vocoder"] = 0.1
        async with aclosing(place.plane.stream(request_for(TEXT), new_record())) as pieces:
            await pieces.__anext__()
            await asyncio.sleep(0.02)
            begun = len(place.stages.calls)
        assert place.engine.gates.total(lambda gate: gate.draining) == place.engine.gates.total(lambda g: g.running) > 0
        await asyncio.sleep(0.3)
        assert len(place.stages.calls) == begun
        assert place.engine.gates.total(lambda gate: gate.running) == 0
        left = [task for task in asyncio.all_tasks() if "voxrepo" in str(task)]
        assert left == []


async def test_a_cancelled_unary_long_text_makes_no_further_call(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        place.tables.table.voices[VOICE] = place.stages.entry.model_copy(update={"max_text_chars": 1000})
        place.stages.delays_s["vocoder"] = 0.05
        task = asyncio.create_task(place.plane.infer(request_for("a long text. " * 40, model=VOICE), new_record()))
        await place.until(lambda: place.stages.count("vocoder") >= 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begun = len(place.stages.calls)
        await asyncio.sleep(0.3)
        assert len(place.stages.calls) == begun


async def test_a_deadline_ends_a_stream_between_calls(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        place.stages.delays_s["vocoder"] = 0.1
        record = new_record()
        record.limit(0.25)
        received = []
        with pytest.raises(DeadlineExceeded, match="timed out after 250 ms"):
            async for piece in place.plane.stream(request_for("abcdefghij" * 19), record):
                received.append(piece)
        assert 1 <= len(received) <= 2
        begun = len(place.stages.calls)
        await asyncio.sleep(0.3)
        assert len(place.stages.calls) == begun


async def test_a_fault_after_the_first_piece_is_raised_after_what_was_made(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:

        def fault(stage: str, request: Any) -> tuple[grpc.StatusCode, str] | None:
            late = stage == "vocoder" and request.parameters["keep_from_frame"].int64_param > 40
            return (grpc.StatusCode.INTERNAL, "secret path /dev/x") if late else None

        place.stages.fault = fault
        received = []
        with pytest.raises(Internal, match="see the server's log") as caught:
            async for piece in place.plane.stream(request_for("abcdefghij" * 10), new_record()):
                received.append(piece)
        assert "secret" not in caught.value.message
        assert len(received) == 3
        assert not received[-1][1]


async def test_silence_throughout_is_an_error_and_never_a_last_piece(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        received = []
        with pytest.raises(Internal):
            async for piece in place.plane.stream(request_for("silent. silent"), new_record()):
                received.append(piece)
        assert received
        assert not any(last for _, last in received)
        assert (await streamed(place, "silent. not so"))[-1][1]


@pytest.mark.parametrize(
    ("request_", "error", "told"),
    [
        (request_for(""), InvalidArgument, "'text' is empty"),
        (request_for("x" * 201), InvalidArgument, "the limit of voice 'en-fake' is 200"),
        (request_for("x", seed=-1), InvalidArgument, "'seed' is -1"),
        (request_for("x", model="en-other.stream"), NotFound, "unknown model 'en-other.stream'"),
    ],
)
async def test_bad_requests_are_refused_before_the_first_call(
    tmp_path: Path, request_: Any, error: type[Exception], told: str
) -> None:
    async with rig(tmp_path) as place:
        with pytest.raises(error, match=told):
            await place.plane.stream(request_, new_record()).__anext__()
        assert place.stages.calls == []


async def test_a_unary_call_of_a_stream_is_told_where_to_go(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        with pytest.raises(InvalidArgument, match="doesn't support models with decoupled transaction policy") as caught:
            await place.plane.infer(request_for("x"), new_record())
        assert "ModelStreamInfer" in caught.value.message
        assert f"the model {VOICE} " in caught.value.message


async def test_streams_share_the_engine_and_keep_apart(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        results = await asyncio.gather(*[streamed(place, TEXT, seed) for seed in range(12)])
    for seed, pieces in enumerate(results):
        joined = np.concatenate([audio_of(response) for response, _ in pieces])
        np.testing.assert_array_equal(joined, whole_audio(TEXT, seed, place.stages.entry))
    assert place.stages.most["vocoder"] <= 4


async def test_the_pause_follows_its_segment(tmp_path: Path) -> None:
    async with rig(tmp_path) as place:
        pieces = await streamed(place, "ab. cd")
    silence = round(PAUSE_MS * 22.05)
    for response, _ in pieces:
        assert not audio_of(response)[-silence:].any()


class TestRecovery:
    """A voice in recovery."""

    DEAD = (grpc.StatusCode.INTERNAL, f"message: Stub process '{VOICE}.vocoder_0_0' is not healthy.")

    async def test_requests_wait_until_it_is_over(self, tmp_path: Path) -> None:
        async with rig(tmp_path) as place:
            place.hold(VOICE)
            waiting = asyncio.create_task(streamed(place, TEXT))
            await asyncio.sleep(0.2)
            assert place.stages.calls == []
            assert not waiting.done()
            place.hold()
            assert (await waiting)[-1][1]

    async def test_they_wait_no_longer_than_their_deadline(self, tmp_path: Path) -> None:
        async with rig(tmp_path) as place:
            place.hold(VOICE)
            record = new_record()
            record.limit(0.1)
            with pytest.raises(DeadlineExceeded):
                await place.plane.infer(request_for("x", model=VOICE), record)

    async def test_they_wait_no_longer_than_the_limit(self, tmp_path: Path) -> None:
        async with rig(tmp_path, hold_timeout_s=0.2) as place:
            place.hold(VOICE)
            with pytest.raises(Unavailable, match=r"was not back within 0\.2 s"):
                await streamed(place, "x")

    @pytest.mark.parametrize("model", [VOICE, f"{VOICE}.stream"])
    async def test_a_call_that_met_a_dead_stub_is_repeated_once(self, tmp_path: Path, model: str) -> None:
        async with rig(tmp_path) as place:
            stage = "ensemble" if model == VOICE else "vocoder"
            place.stages.fault = lambda at, _: self.DEAD if at == stage and place.stages.count(stage) == 1 else None

            async def ask() -> Any:
                if model == VOICE:
                    return await place.plane.infer(request_for("x", model=VOICE), new_record())
                return await streamed(place, "x")

            asked = asyncio.create_task(ask())
            await asyncio.sleep(0.2)
            place.hold(VOICE)
            await asyncio.sleep(0.3)
            assert place.stages.count(stage) == 1
            place.hold()
            await asked
            assert place.stages.count(stage) == 2

    async def test_a_stream_that_has_begun_gets_a_gap_and_not_an_error(self, tmp_path: Path) -> None:
        text = "abcdefghij" * 10
        async with rig(tmp_path) as place:
            place.stages.fault = lambda at, _: self.DEAD if at == "vocoder" and place.stages.count(at) == 3 else None
            record = new_record()
            asked = asyncio.create_task(streamed(place, text, record=record))
            await place.until(lambda: place.stages.count("vocoder") == 3)
            await asyncio.sleep(0.1)
            assert record.pieces == 2
            place.hold(VOICE)
            await asyncio.sleep(0.3)
            assert place.stages.count("vocoder") == 3
            place.hold()
            pieces = await asked
        joined = np.concatenate([audio_of(response) for response, _ in pieces])
        np.testing.assert_array_equal(joined, whole_audio(text, 5, place.stages.entry))
        sent = [request for at, request in place.stages.calls if at == "vocoder"]
        assert sent[2] == sent[3]
        assert pieces[-1][1]

    async def test_a_stream_whose_call_fails_twice_ends_in_an_error(self, tmp_path: Path) -> None:
        async with rig(tmp_path, hold_timeout_s=0.1) as place:
            place.stages.fault = lambda at, _: self.DEAD if at == "vocoder" and place.stages.count(at) > 2 else None
            received = []
            with pytest.raises(Internal):
                async for piece in place.plane.stream(request_for("abcdefghij" * 10), new_record()):
                    received.append(piece)
            assert len(received) == 2
            assert not received[-1][1]
            assert place.stages.count("vocoder") == 4

    async def test_a_second_failure_is_told(self, tmp_path: Path) -> None:
        async with rig(tmp_path, hold_timeout_s=0.1) as place:
            place.stages.fault = lambda at, _: self.DEAD
            with pytest.raises(Internal):
                await place.plane.infer(request_for("x", model=VOICE), new_record())
            assert place.stages.count("ensemble") == 2

    async def test_a_full_queue_is_not_taken_for_a_fault(self, tmp_path: Path) -> None:
        async with rig(tmp_path) as place:
            full = (grpc.StatusCode.UNAVAILABLE, "Exceeds maximum queue size")
            place.stages.fault = lambda at, _: full
            with pytest.raises(Unavailable, match="the queue is full"):
                await streamed(place, "x")
            assert place.stages.count("text_frontend") == 1
