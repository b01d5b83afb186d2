"""`Voice.stream` and `AsyncVoice.stream` against a server on real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from voxrepo_client import (
    AsyncVoice,
    BadResponse,
    ClientClosed,
    ConnectionFailed,
    InvalidRequest,
    ServerBusy,
    ServerError,
    StreamingNotOffered,
    TimedOut,
    Voice,
    VoiceNotFound,
    VoxrepoClientError,
    stream_long,
    synthesize_long,
)

from tests.clients.protocol_server import DRAWN_SEED, SAMPLE_RATE_HZ, VERSIONS, Failure, pieces, spoken
from tests.clients.test_client_voice import FAILURES

TEXT = "A text of a few pieces, that is all there is to say of it."


@pytest.fixture
def voice(url):
    with Voice("en-joe", url) as opened:
        yield opened


async def _collected(url, text=TEXT, **options):
    """What the asynchronous client makes of it: the pieces, the error, the stream."""
    got, caught = [], None
    async with AsyncVoice("en-joe", url) as voice:
        stream = voice.stream(text, **options)
        try:
            async for piece in stream:
                got.append(piece)
        except VoxrepoClientError as error:
            caught = error
    return got, caught, stream


def _received(holder):
    """The samples that a stream or an error holds."""
    assert holder.received is not None
    return holder.received.samples


def _equal(got, expected):
    assert [len(piece) for piece in got] == [len(piece) for piece in expected]
    assert all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))


async def test_pieces_come_in_order_and_say_what_they_are(url, voice, peer):
    peer.dropped = {"emoji": 2}
    expected = pieces(spoken(TEXT))
    assert len(expected) > 3
    stream = voice.stream(TEXT)
    assert (stream.sample_rate_hz, stream.seed, stream.versions, stream.dropped) == (None, None, {}, {})
    assert stream.received is None
    first = next(stream)
    assert first.dtype == np.int16
    assert (stream.sample_rate_hz, stream.seed) == (SAMPLE_RATE_HZ, DRAWN_SEED)
    assert (stream.versions, stream.dropped) == (VERSIONS, {"emoji": 2})
    _equal([first, *stream], expected)
    assert list(stream) == []
    assert np.array_equal(_received(stream), spoken(TEXT))
    got, caught, asynchronous = await _collected(url)
    _equal(got, expected)
    assert caught is None
    assert (asynchronous.seed, asynchronous.dropped) == (DRAWN_SEED, {"emoji": 2})


async def test_sends_every_option(url, voice, peer):
    options = {
        "speed": 0.5,
        "speaker": "Zoë",
        "seed": -5,
        "noise_scale": 0.25,
        "noise_w_scale": 1,
        "normalise": False,
        "timeout_s": 20,
    }
    assert np.array_equal(voice.stream("Ü 你好", **options).collect().samples, spoken("Ü 你好", 0.5, "Zoë", -5))
    await _collected(url, "Ü 你好", **options)
    for request in peer.received:
        assert request.model == "en-joe.stream"
        assert request.inputs == {"text": "Ü 你好".encode(), "speed": 0.5, "speaker": "Zoë".encode(), "seed": -5}
        assert request.parameters == {
            "noise_scale": 0.25,
            "noise_w_scale": 1.0,
            "normalise": False,
            "timeout": 20_000_000,
        }
    assert len(peer.received) == 2


def test_sends_headers(url, peer):
    with Voice("en-joe", url, headers={"Authorization": "Bearer abc"}) as voice:
        voice.stream("a").collect()
    assert {k.lower(): v for k, v in peer.received[-1].headers.items()}["authorization"] == "Bearer abc"


def test_a_piece_comes_while_the_next_is_made(voice, peer):
    peer.piece_delay_s = 0.2
    stream = voice.stream(TEXT)
    speech = stream.collect()
    timing = stream.timing
    assert timing.audio_s == pytest.approx(speech.duration_s)
    assert len(timing.arrivals_s) == len(pieces(spoken(TEXT)))
    assert timing.first_piece_s < 0.2
    assert all(0.15 < gap_s < 0.6 for gap_s in timing.gaps_s)


def test_one_sample_is_a_piece(voice, peer, monkeypatch):
    monkeypatch.setattr("tests.clients.protocol_server.pieces", lambda audio: [audio[:1], audio[1:]])
    _equal(list(voice.stream("a")), [spoken("a")[:1], spoken("a")[1:]])


def test_changing_a_piece_leaves_what_was_received_alone(voice):
    stream = voice.stream(TEXT)
    for piece in stream:
        piece[:] = 0
    assert np.array_equal(_received(stream), spoken(TEXT))


def test_threads_share_a_voice_and_get_their_own_pieces(voice):
    texts = [f"text number {i} " + "x" * (i % 7) for i in range(48)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda item: voice.stream(item[1], seed=item[0]).collect(), enumerate(texts)))
    for i, (text, speech) in enumerate(zip(texts, answers, strict=True)):
        assert np.array_equal(speech.samples, spoken(text, seed=i))


async def test_tasks_share_a_voice_and_get_their_own_pieces(url):
    texts = [f"text number {i}" for i in range(24)]
    async with AsyncVoice("en-joe", url) as voice:
        answers = await asyncio.gather(*(voice.stream(text, seed=i).collect() for i, text in enumerate(texts)))
    for i, (text, speech) in enumerate(zip(texts, answers, strict=True)):
        assert np.array_equal(speech.samples, spoken(text, seed=i))


def test_one_thread_reads_two_streams_in_turn(voice):
    one, other = voice.stream(TEXT, seed=1), voice.stream(TEXT, seed=2)
    got = list(zip(one, other, strict=True))
    _equal([pair[0] for pair in got], pieces(spoken(TEXT, seed=1)))
    _equal([pair[1] for pair in got], pieces(spoken(TEXT, seed=2)))


def _leave_with_close(stream):
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []


def _leave_with_break(stream):
    for _ in stream:
        break


def _leave_with_context(stream):
    with stream:
        next(stream)


@pytest.mark.parametrize("leave", [_leave_with_close, _leave_with_break, _leave_with_context])
def test_leaving_early_ends_the_request_at_the_server(voice, peer, leave):
    peer.piece_delay_s = 0.1
    leave(voice.stream(TEXT * 20))
    gc.collect()
    assert peer.cancelled.wait(5)
    sent = len(peer.sent)
    time.sleep(0.3)
    assert len(peer.sent) <= sent + 1
    assert sent < len(pieces(spoken(TEXT * 20)))
    peer.piece_delay_s = 0.0
    assert voice.stream("b").collect().duration_s > 0


async def test_leaving_early_asynchronously_ends_the_request_at_the_server(url, peer):
    peer.piece_delay_s = 0.1
    async with AsyncVoice("en-joe", url) as voice:
        async for _ in voice.stream(TEXT * 20):
            break
        gc.collect()
        assert await asyncio.to_thread(peer.cancelled.wait, 5)


async def test_cancelling_a_task_cancels_its_stream(url, peer):
    peer.piece_delay_s = 1.0
    async with AsyncVoice("en-joe", url) as voice:
        task = asyncio.create_task(voice.stream(TEXT).collect())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(peer.cancelled.wait, 5)
        peer.piece_delay_s = 0.0
        assert (await voice.stream("b").collect()).duration_s > 0


def test_closing_from_another_thread_ends_the_wait(voice, peer):
    peer.piece_delay_s = 5.0
    stream = voice.stream(TEXT)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(list, stream)
        time.sleep(0.4)
        start_s = time.monotonic()
        stream.close()
        with pytest.raises(ClientClosed) as caught:
            call.result()
    assert time.monotonic() - start_s < 2
    assert np.array_equal(_received(caught.value), pieces(spoken(TEXT))[0])


async def test_closing_the_voice_ends_its_streams(url, peer):
    peer.piece_delay_s = 5.0
    voice = Voice("en-joe", url)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(voice.stream(TEXT).collect)
        await asyncio.sleep(0.4)
        voice.close()
        with pytest.raises((ClientClosed, ConnectionFailed)):
            call.result()
    with pytest.raises(ClientClosed):
        voice.stream("a").collect()
    asynchronous = AsyncVoice("en-joe", url)
    task = asyncio.create_task(asynchronous.stream(TEXT).collect())
    await asyncio.sleep(0.4)
    await asynchronous.close()
    with pytest.raises((ClientClosed, ConnectionFailed)):
        await task
    with pytest.raises(ClientClosed):
        await asynchronous.stream("a").collect()


@pytest.mark.parametrize("after", [None, 2])
@pytest.mark.parametrize(("failure", "kind"), FAILURES, ids=[failure.code for failure, _ in FAILURES])
async def test_raises_the_errors_of_unary_calls(url, voice, peer, failure, kind, after):
    peer.fail, peer.fail_after = failure, after
    if kind is VoiceNotFound and after is None:
        peer.models.clear()
    if failure.code == "UNIMPLEMENTED" and after is None:
        kind = StreamingNotOffered
    stream, got = voice.stream(TEXT), []
    with pytest.raises(VoxrepoClientError) as caught:
        for piece in stream:
            got.append(piece)
    _, asynchronous, _ = await _collected(url)
    for error in (caught.value, asynchronous):
        assert type(error) is kind
        if kind not in (VoiceNotFound, StreamingNotOffered):
            assert error.message == failure.text
        if after is None:
            assert error.received is None
        else:
            assert np.array_equal(_received(error), np.concatenate(pieces(spoken(TEXT))[:after]))
        if isinstance(error, ServerBusy) and (after is None or url.startswith("grpc")):
            assert error.retry_after_s == 3.0
    assert len(got) == (after or 0)
    assert list(stream) == []


async def test_a_connection_that_breaks_is_never_a_short_success(url, voice, peer):
    peer.hang_up_after = 2
    with pytest.raises(ConnectionFailed) as caught:
        list(voice.stream(TEXT))
    _, asynchronous, _ = await _collected(url)
    for error in (caught.value, asynchronous):
        assert type(error) is ConnectionFailed
        assert np.array_equal(_received(error), np.concatenate(pieces(spoken(TEXT))[:2]))


async def test_a_grpc_stream_without_its_end_is_never_a_short_success(peer):
    peer.final_is_told = False
    with Voice("en-joe", peer.grpc_url) as voice, pytest.raises(BadResponse, match="before its last piece"):
        voice.stream(TEXT).collect()
    _, asynchronous, _ = await _collected(peer.grpc_url)
    assert type(asynchronous) is BadResponse


@pytest.mark.parametrize(("finals", "is_whole"), [((), True), ((False, True), True), ((False, False), False)])
def test_an_http_stream_that_says_that_more_will_come_is_never_a_short_success(peer, finals, is_whole):
    events = [{"audio": [index, 1], "sample_rate": 22050} for index in range(2)]
    for event, is_final in zip(events, finals, strict=False):
        event["triton_final_response"] = is_final
    peer.raw_answer = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    with Voice("en-joe", peer.http_url) as voice:
        stream = voice.stream(TEXT)
        if is_whole:
            assert stream.collect().samples.tolist() == [0, 1, 1, 1]
        else:
            with pytest.raises(ConnectionFailed, match="before its last piece") as caught:
                stream.collect()
            assert _received(caught.value).tolist() == [0, 1, 1, 1]


async def test_gives_up_in_time_on_both_sides(url, voice, peer):
    peer.piece_delay_s = 1.0
    start_s = time.monotonic()
    with pytest.raises(TimedOut) as caught:
        voice.stream(TEXT, timeout_s=0.4).collect()
    _, asynchronous, _ = await _collected(url, timeout_s=0.4)
    assert time.monotonic() - start_s < 1.8
    for error in (caught.value, asynchronous):
        assert type(error) is TimedOut
        assert np.array_equal(_received(error), pieces(spoken(TEXT))[0])


async def test_a_server_that_does_not_stream_is_told_from_one_without_the_voice(url, voice, peer):
    del peer.models["en-joe.stream"]
    with pytest.raises(StreamingNotOffered, match=r"'en-joe'.*synthesize"):
        voice.stream(TEXT).collect()
    _, asynchronous, _ = await _collected(url)
    assert type(asynchronous) is StreamingNotOffered
    with Voice("nobody", url) as other, pytest.raises(VoiceNotFound, match="'nobody'"):
        other.stream(TEXT).collect()


@pytest.mark.parametrize("arguments", [{"text": 3}, {"text": "a\ud800"}, {"text": "a", "timeout_s": 0}])
def test_refuses_at_once_what_cannot_be_sent(voice, peer, arguments):
    with pytest.raises(InvalidRequest):
        voice.stream(**arguments)
    assert peer.received == []


def test_json_has_no_word_for_nan(peer):
    with Voice("en-joe", peer.http_url) as voice, pytest.raises(InvalidRequest, match="speed is nan"):
        voice.stream("a", speed=float("nan"))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"data: <html>\n\n",
        b"data: []\n\n",
        b'data: {"audio": 1}\n\n',
        b'data: {"audio": [40000], "sample_rate": 1}\n\n',
        b'data: {"audio": [[1], 2], "sample_rate": 1}\n\n',
        b'data: {"audio": [1.5], "sample_rate": 1}\n\n',
        b'data: {"audio": [], "sample_rate": 1}\n\n',
    ],
)
def test_an_http_answer_of_something_else_is_a_bad_response(peer, raw):
    peer.raw_answer = raw
    with Voice("en-joe", peer.http_url) as voice, pytest.raises((BadResponse, ConnectionFailed)):
        voice.stream("a").collect()


def test_an_event_without_a_code_is_a_server_error(peer):
    peer.raw_answer = b'data: {"error": "broken"}\n\n'
    with Voice("en-joe", peer.http_url) as voice, pytest.raises(ServerError, match="broken"):
        voice.stream("a").collect()


def test_a_slow_reader_slows_the_server_down(voice, peer):
    text = "x" * 20_000  # 16 MB over gRPC, 56 MB over HTTP
    stream = voice.stream(text)
    next(stream)
    time.sleep(1.0)
    halted = len(peer.sent)
    time.sleep(0.5)
    assert len(peer.sent) == halted < len(pieces(spoken(text)))
    assert np.array_equal(stream.collect().samples, spoken(text))


def test_a_forgotten_stream_leaves_no_thread(peer, url):
    def speak() -> None:
        next(Voice("en-joe", url).stream(TEXT))

    speak()
    gc.collect()
    time.sleep(0.3)
    before = threading.active_count()
    for _ in range(5):
        speak()
    gc.collect()
    deadline_s = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_a_long_text_streams_in_several_requests_as_it_is_synthesised(voice, peer):
    text = " ".join(f"This is sentence number {i}." for i in range(30))
    whole, parts = synthesize_long(voice, text, seed=3, speed=2.0)
    requests = len(peer.received)
    got = list(stream_long(voice, text, seed=3, speed=2.0))
    assert np.array_equal(np.concatenate([piece for _, piece in got]), whole.samples)
    assert len({id(stream) for stream, _ in got}) == len(parts) == len(peer.received) - requests > 2


def test_closing_a_long_text_ends_the_request_in_flight(voice, peer):
    peer.piece_delay_s = 0.1
    streaming = stream_long(voice, "It goes on and on. " * 50)
    next(streaming)
    streaming.close()
    assert peer.cancelled.wait(5)
    assert len(peer.received) == 1


def test_a_busy_server_is_not_one_that_does_not_stream(voice, peer):
    peer.fail = Failure("UNAVAILABLE", 503, "the queue is full", "3")
    with pytest.raises(ServerBusy):
        voice.stream("a").collect()
