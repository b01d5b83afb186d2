"""Streams of the real voice: equal to the unary answer, early, and cheap to drop."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc
from tritonclient.utils import InferenceServerException

from tests.harness import VOICE, RunningServer

from .calls import SENTENCES, Audio, inputs_for, speak
from .perf_analyzer import measure, needs_perf_analyzer
from .streams import STREAM, events, listen, unary, wait_for_quiet

pytestmark = pytest.mark.e2e

STAGES = ("text_frontend", "acoustic", "vocoder")
TEXTS = {
    "a word": "Yes.",
    "a sentence": SENTENCES[0],
    "lines": "\n\n".join(SENTENCES[:4]),
    "unended": "One, two, three and " * 12,
    "long": " ".join(SENTENCES),
}


@pytest.mark.parametrize(
    ("name", "seed", "speed"),
    [*((name, 7, None) for name in TEXTS), ("a word", 1, 4.0), ("lines", 123_456, 0.7), ("unended", 3, 2.5)],
)
def test_joined_pieces_equal_the_unary_answer_to_the_bit(
    server: RunningServer, name: str, seed: int, speed: float | None
) -> None:
    text = TEXTS[name]
    expected = unary(server, text, seed=seed, speed=speed)
    heard = listen(server, text, seed=seed, speed=speed)
    np.testing.assert_array_equal(heard.joined, expected)
    assert heard.parameters["seed"] == seed
    assert set(heard.parameters["versions"]) == set(STAGES)
    body = {"text": text, "seed": seed, **({} if speed is None else {"speed": speed})}
    over_http = list(events(server, body))
    assert {event["sample_rate"] for event in over_http} == {22_050}
    np.testing.assert_array_equal(np.concatenate([event["audio"] for event in over_http]), expected)


def stage_of(server: RunningServer, stage: str) -> int:
    """Inferences of a stage so far; the engine counts a call a moment after it has answered it."""
    counts = [-1]
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        while len(counts) < 3 or counts[-1] != counts[-2]:
            time.sleep(0.1)
            statistics = client.get_inference_statistics(f"{VOICE}.{stage}")
            counts.append(int(statistics.model_stats[0].inference_count))
    return counts[-1]


def test_a_long_unary_text_is_several_calls_and_equals_its_parts(server: RunningServer) -> None:
    parts = [" ".join(SENTENCES[start : start + 5]) for start in (0, 5)]
    before = stage_of(server, "vocoder")
    long = unary(server, " ".join(parts))
    assert stage_of(server, "vocoder") - before > 5
    # the ensemble makes the first part; noise goes by the segment's number, so a text's beginning does not depend
    # on what follows but for the pause
    before = stage_of(server, "vocoder")
    first = unary(server, parts[0][: parts[0].index("please?") + len("please?")])
    assert stage_of(server, "vocoder") - before == 1
    np.testing.assert_array_equal(long[: len(first)], first)


def test_the_first_piece_is_there_long_before_the_whole(server: RunningServer) -> None:
    text = " ".join(SENTENCES[:8])
    listen(server, text)
    firsts, totals = [], []
    for _ in range(3):
        heard = listen(server, text)
        firsts.append(heard.at_s[0])
        started = time.monotonic()
        unary(server, text)
        totals.append(time.monotonic() - started)
    assert min(firsts) < 0.25 * min(totals), (firsts, totals)
    assert len(heard.pieces) > 8


def test_streams_and_unary_requests_at_once_keep_to_their_own_audio(server: RunningServer) -> None:
    texts = [f"Caller {number}. {SENTENCES[number]} {SENTENCES[-number]}" for number in range(1, 9)]
    expected = [unary(server, text, seed=number) for number, text in enumerate(texts)]

    def ask(number: int) -> Audio:
        if number % 2:
            return unary(server, texts[number], seed=number)
        return listen(server, texts[number], seed=number).joined

    with ThreadPoolExecutor(len(texts)) as pool:
        for audio, own in zip(pool.map(ask, range(len(texts))), expected, strict=True):
            np.testing.assert_array_equal(audio, own)


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_a_client_that_leaves_stops_the_engine(server: RunningServer, door: str) -> None:
    text = " ".join(SENTENCES * 3)
    before = stage_of(server, "vocoder")
    if door == "grpc":
        request = pb.ModelInferRequest(model_name=STREAM)
        request.inputs.add(name="text", datatype="BYTES", shape=(1, 1)).contents.bytes_contents.append(text.encode())
        with grpc.insecure_channel(server.grpc_url) as channel:
            call = rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]))
            next(call)
            call.cancel()
    else:
        pieces = events(server, {"text": text})
        next(pieces)
        pieces.close()  # type: ignore[attr-defined]
    wait_for_quiet(server)
    after = stage_of(server, "vocoder")
    assert 1 <= after - before <= 12
    time.sleep(0.5)
    assert stage_of(server, "vocoder") == after


def test_clients_find_out_what_a_stream_is(server: RunningServer) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        assert client.is_model_ready(STREAM)
        assert client.is_model_ready(STREAM, "1")
        assert not client.is_model_ready(STREAM, "2")
        metadata = client.get_model_metadata(STREAM)
        assert (metadata.name, list(metadata.versions)) == (STREAM, ["1"])
        assert [tensor.name for tensor in metadata.outputs] == ["audio", "sample_rate"]
        config = client.get_model_config(STREAM).config
        assert config.name == STREAM
        assert config.model_transaction_policy.decoupled
        assert not config.HasField("ensemble_scheduling")
        assert [tensor.name for tensor in config.input if not tensor.optional] == ["text"]
        own = client.get_model_config(VOICE).config
        assert not own.model_transaction_policy.decoupled
        index = {entry.name: entry.state for entry in client.get_model_repository_index().models}
        assert index[STREAM] == index[VOICE] == "READY"
        before = client.get_inference_statistics(STREAM).model_stats[0]
        listen(server, "Good morning.")
        (after,) = client.get_inference_statistics(STREAM).model_stats
        assert (after.name, after.version) == (STREAM, "1")
        assert after.inference_count - before.inference_count in (0, 1)  # another edge process may have served it
        with pytest.raises(InferenceServerException, match="doesn't support models with decoupled transaction policy"):
            client.infer(STREAM, inputs_for(grpc_client, "Hello."))
    with http_client.InferenceServerClient(server.http_url) as client:
        assert client.is_model_ready(STREAM)
        assert client.get_model_metadata(STREAM)["name"] == STREAM
        assert client.get_model_config(STREAM)["model_transaction_policy"] == {"decoupled": True}
        assert STREAM in {entry["name"] for entry in client.get_model_repository_index()}


def test_bad_input_is_refused_as_by_the_voice(server: RunningServer) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        for text in ("", "...", "x" * 5000):
            with pytest.raises(InferenceServerException) as own:
                speak(client, text)
            with pytest.raises(InferenceServerException) as streamed:
                listen(server, text)
            assert streamed.value.message() == own.value.message()


def test_a_deadline_ends_a_stream(server: RunningServer) -> None:
    errors: list[dict[str, Any]] = []
    pieces: list[dict[str, Any]] = []
    for event in events(server, {"text": " ".join(SENTENCES * 3), "timeout": 600_000}):
        (errors if "error" in event else pieces).append(event)
    assert [error["error"] for error in errors] == ["timed out after 600 ms"]
    assert pieces
    wait_for_quiet(server)


def test_a_short_request_does_not_wait_for_a_long_unary_one(server: RunningServer) -> None:
    long = threading.Thread(target=unary, args=(server, " ".join(SENTENCES * 3)))
    long.start()
    time.sleep(0.5)
    started = time.monotonic()
    unary(server, "Yes.")
    waited_s = time.monotonic() - started
    assert long.is_alive()
    long.join()
    assert waited_s < 0.5 * (time.monotonic() - started)


@needs_perf_analyzer
def test_perf_analyzer_measures_a_stream(server: RunningServer, tmp_path: Path) -> None:
    texts = ("Good morning.", " ".join(SENTENCES[:3]))
    result = measure(tmp_path, texts, *("-m", STREAM, "-i", "grpc", "--streaming", "-u", server.grpc_url))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Throughput:" in result.stdout
