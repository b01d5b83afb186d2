"""`Voice` and `AsyncVoice` against a server on real sockets."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
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
    NotPermitted,
    ServerBusy,
    ServerError,
    TimedOut,
    Voice,
    VoiceInfo,
    VoiceNotFound,
    VoxrepoClientError,
    list_voices,
    list_voices_async,
    synthesize_long,
)

from tests.clients.protocol_server import DRAWN_SEED, MAX_TEXT_CHARS, SAMPLE_RATE_HZ, VERSIONS, Failure, spoken


@pytest.fixture
def voice(url):
    with Voice("en-joe", url) as opened:
        yield opened


def test_speaks(voice, peer):
    speech = voice.synthesize("Hello there.")
    assert np.array_equal(speech.samples, spoken("Hello there."))
    assert (speech.sample_rate_hz, speech.seed, speech.versions) == (SAMPLE_RATE_HZ, DRAWN_SEED, VERSIONS)
    request = peer.received[-1]
    assert request.inputs == {"text": b"Hello there.", "speed": 1.0}
    assert request.parameters == {}


def test_sends_every_option(voice, peer):
    speech = voice.synthesize(
        "Ünïcödé 你好", speed=0.5, speaker="Zoë", seed=-5, noise_scale=0.25, noise_w_scale=1, timeout_s=20
    )
    request = peer.received[-1]
    assert request.inputs == {
        "text": "Ünïcödé 你好".encode(),
        "speed": 0.5,
        "speaker": "Zoë".encode(),
        "seed": -5,
    }
    assert request.parameters == {"noise_scale": 0.25, "noise_w_scale": 1.0, "timeout": 20_000_000}
    assert speech.seed == -5
    assert np.array_equal(speech.samples, spoken("Ünïcödé 你好", 0.5, "Zoë", -5))


async def test_async_speaks_the_same(url, peer):
    async with AsyncVoice("en-joe", url) as voice:
        speech = await voice.synthesize("Hello.", speed=2.0, speaker="joe", seed=9, noise_scale=0.5, timeout_s=5)
    assert np.array_equal(speech.samples, spoken("Hello.", 2.0, "joe", 9))
    assert peer.received[-1].parameters == {"noise_scale": 0.5, "timeout": 5_000_000}


def test_sends_headers(url, peer):
    with Voice("en-joe", url, headers={"Authorization": "Bearer abc"}) as voice:
        voice.synthesize("a")
    headers = {key.lower(): value for key, value in peer.received[-1].headers.items()}
    assert headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"": "c"}, {"a": "b\n"}, {"a": "ü"}])
def test_refuses_headers_that_cannot_be_sent(headers):
    with pytest.raises(InvalidRequest, match="header"):
        Voice("en-joe", "localhost:1", headers=headers)


def test_threads_share_a_voice_and_get_their_own_audio(url):
    texts = [f"text number {i} " + "x" * (i % 7) for i in range(96)]
    with Voice("en-joe", url) as voice, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda item: voice.synthesize(item[1], seed=item[0]), enumerate(texts)))
    for i, (text, speech) in enumerate(zip(texts, answers, strict=True)):
        assert np.array_equal(speech.samples, spoken(text, seed=i))


async def test_tasks_share_a_voice_and_get_their_own_audio(url):
    texts = [f"text number {i}" for i in range(64)]
    async with AsyncVoice("en-joe", url) as voice:
        answers = await asyncio.gather(*(voice.synthesize(text, seed=i) for i, text in enumerate(texts)))
    for i, (text, speech) in enumerate(zip(texts, answers, strict=True)):
        assert np.array_equal(speech.samples, spoken(text, seed=i))


FAILURES = [
    (Failure("INVALID_ARGUMENT", 400, "text: 5000 characters; the limit is 4096"), InvalidRequest),
    (Failure("NOT_FOUND", 404, "unknown model 'x'"), VoiceNotFound),
    (Failure("PERMISSION_DENIED", 403, "not at this door"), NotPermitted),
    (Failure("UNAVAILABLE", 503, "the queue is full", "3"), ServerBusy),
    (Failure("DEADLINE_EXCEEDED", 503, "timed out after 40 ms"), TimedOut),
    (Failure("INTERNAL", 500, "internal error, id 3f"), ServerError),
    (Failure("UNIMPLEMENTED", 501, "not offered"), ServerError),
]


@pytest.mark.parametrize(("failure", "kind"), FAILURES, ids=[failure.code for failure, _ in FAILURES])
async def test_raises_typed_errors_with_the_text_of_the_server(url, peer, failure, kind):
    peer.fail = failure
    with Voice("en-joe", url) as voice, pytest.raises(VoxrepoClientError) as blocking:
        voice.synthesize("a")
    async with AsyncVoice("en-joe", url) as voice:
        with pytest.raises(VoxrepoClientError) as asynchronous:
            await voice.synthesize("a")
    for caught in (blocking.value, asynchronous.value):
        assert type(caught) is kind
        assert caught.message == failure.text
        assert caught.code in (failure.code, str(failure.http_status))
        if isinstance(caught, ServerBusy):
            assert caught.retry_after_s == 3.0


async def test_gives_up_in_time_on_both_sides(url, peer):
    peer.delay_s = 1.0
    start_s = time.monotonic()
    with Voice("en-joe", url, timeout_s=60) as voice, pytest.raises(TimedOut) as blocking:
        voice.synthesize("a", timeout_s=0.2)
    async with AsyncVoice("en-joe", url, timeout_s=0.2) as voice:
        with pytest.raises(TimedOut) as asynchronous:
            await voice.synthesize("a")
    assert time.monotonic() - start_s < 0.9
    for caught in (blocking.value, asynchronous.value):
        assert "answer" in str(caught)


@pytest.fixture
def closed_port():
    with socket.socket() as reserved:  # bound but not listening
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@pytest.mark.parametrize("scheme", ["grpc", "http"])
async def test_says_where_nobody_answers(scheme, closed_port):
    url = f"{scheme}://127.0.0.1:{closed_port}"
    with Voice("en-joe", url) as voice, pytest.raises(ConnectionFailed, match=f"no connection to {url}"):
        voice.synthesize("a")
    async with AsyncVoice("en-joe", url) as voice:
        with pytest.raises(ConnectionFailed, match=f"no connection to {url}"):
            await voice.synthesize("a")
    with pytest.raises(ConnectionFailed, match=url):
        list_voices(url)


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_says_which_name_does_not_resolve(scheme):
    with Voice("en-joe", f"{scheme}://no-such-host.invalid:1") as voice, pytest.raises(ConnectionFailed) as caught:
        voice.synthesize("a")
    assert "no-such-host.invalid" in str(caught.value)


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_connection_that_breaks_is_a_connection_error(scheme):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            connection.recv(10)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        with Voice("en-joe", url, timeout_s=5) as voice, pytest.raises((ConnectionFailed, TimedOut)) as caught:
            voice.synthesize("a")
        thread.join()
    if scheme == "http":
        assert type(caught.value) is ConnectionFailed


def test_the_wrong_door_is_named(peer):
    with Voice("en-joe", f"http://127.0.0.1:{peer.grpc_port}", timeout_s=5) as voice, pytest.raises(ConnectionFailed):
        voice.synthesize("a")
    grpc_voice = Voice("en-joe", f"grpc://127.0.0.1:{peer.http_port}", timeout_s=5)
    with grpc_voice, pytest.raises((ConnectionFailed, TimedOut)):
        grpc_voice.synthesize("a")


def test_finds_a_restarted_server_soon(peer):
    with Voice("en-joe", peer.grpc_url) as voice:
        voice.synthesize("a")
        peer.stop_grpc()
        for _ in range(3):
            with pytest.raises(ConnectionFailed):
                voice.synthesize("a")
            time.sleep(0.3)
        peer.start_grpc()
        start_s = time.monotonic()
        while True:
            try:
                voice.synthesize("a")
                break
            except ConnectionFailed:
                assert time.monotonic() - start_s < 5
                time.sleep(0.05)


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"outputs": 3}', b'{"outputs": [{"name": "audio"}]}'])
def test_an_http_answer_of_something_else_is_a_bad_response(peer, raw):
    peer.raw_answer = raw
    with Voice("en-joe", peer.http_url) as voice, pytest.raises(BadResponse, match="200"):
        voice.synthesize("a")


def test_a_grpc_answer_that_does_not_fit_its_description_is_a_bad_response(peer):
    peer.audio_dtype = "FP32"
    with Voice("en-joe", peer.grpc_url) as voice, pytest.raises(BadResponse):
        voice.synthesize("abc")


def test_an_http_error_that_is_not_of_the_protocol_is_told(peer):
    peer.fail = Failure("", 502, "", body=b"<html>Bad Gateway</html>")
    with Voice("en-joe", peer.http_url) as voice, pytest.raises(ServerError, match="HTTP 502: <html>Bad Gateway"):
        voice.synthesize("a")


def test_a_path_in_front_that_is_wrong_is_told(peer):
    with Voice("en-joe", peer.http_url + "/elsewhere") as voice, pytest.raises(BadResponse, match="path"):
        voice.synthesize("a")


async def test_a_closed_client_says_so(url):
    voice = Voice("en-joe", url)
    voice.synthesize("a")
    voice.close()
    voice.close()
    with pytest.raises(ClientClosed):
        voice.synthesize("a")
    asynchronous = AsyncVoice("en-joe", url)
    await asynchronous.synthesize("a")
    await asynchronous.close()
    await asynchronous.close()
    with pytest.raises(ClientClosed):
        await asynchronous.synthesize("a")


def test_closing_ends_calls_in_flight(url, peer):
    peer.delay_s = 1.5
    voice = Voice("en-joe", url)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(voice.synthesize, "a")
        time.sleep(0.3)
        start_s = time.monotonic()
        voice.close()
        with pytest.raises((ClientClosed, ConnectionFailed)):
            call.result()
        assert time.monotonic() - start_s < 1.0


def test_a_forgotten_client_leaves_no_thread(peer):
    def speak() -> None:
        Voice("en-joe", peer.http_url).synthesize("a")

    before = threading.active_count()
    for _ in range(5):
        speak()
    gc.collect()
    assert threading.active_count() <= before


def test_an_async_voice_belongs_to_one_loop(url):
    voice = AsyncVoice("en-joe", url)

    async def speak_and_leave_open() -> None:
        await voice.synthesize("a")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(speak_and_leave_open())
    with pytest.raises(ClientClosed, match="another event loop"):
        asyncio.run(speak_and_leave_open())
    loop.run_until_complete(voice.close())
    loop.close()


async def test_cancelling_a_task_is_a_cancellation(url, peer):
    peer.delay_s = 1.0
    async with AsyncVoice("en-joe", url) as voice:
        task = asyncio.create_task(voice.synthesize("a"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        peer.delay_s = 0.0
        assert (await voice.synthesize("b")).duration_s > 0


def test_a_voice_made_before_a_fork_refuses_instead_of_hanging(peer):
    voice = Voice("en-joe", peer.http_url)
    voice.synthesize("a")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            voice.synthesize("a")
        except ClientClosed:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    voice.close()


EXPECTED = VoiceInfo("en-joe", "en-US", SAMPLE_RATE_HZ, ("joe",), MAX_TEXT_CHARS, VERSIONS)


async def test_lists_voices_and_nothing_else(url, peer):
    assert list_voices(url) == [EXPECTED]
    peer.add_voice("de-eva", ["eva", "kim"])
    assert [voice.name for voice in list_voices(url, timeout_s=5)] == ["de-eva", "en-joe"]
    assert await list_voices_async(url) == list_voices(url)


async def test_describes_a_voice(url):
    with Voice("en-joe", url) as voice:
        assert voice.info() == EXPECTED
    async with AsyncVoice("en-joe", url) as voice:
        assert await voice.info(timeout_s=5) == EXPECTED


@pytest.mark.parametrize("name", ["resnet", "en-joe.stream", "nobody"])
async def test_describes_only_voices(url, name):
    with Voice(name, url) as voice, pytest.raises(VoiceNotFound, match=name):
        voice.info()
    async with AsyncVoice(name, url) as voice:
        with pytest.raises(VoiceNotFound, match=name):
            await voice.info()


def test_speaks_a_long_text_in_several_requests(voice, peer):
    text = " ".join(f"This is sentence number {i}." for i in range(30))
    progress = []
    speech, parts = synthesize_long(voice, text, speed=2.0, on_progress=lambda *at: progress.append(at))
    sent = [request.inputs for request in peer.received]
    assert len(sent) == len(parts) > 3
    assert " ".join(inputs["text"].decode() for inputs in sent) == text
    assert all(len(inputs["text"]) <= MAX_TEXT_CHARS for inputs in sent)
    assert len({inputs["seed"] for inputs in sent}) == 1
    assert speech.seed == sent[0]["seed"]
    pause = np.zeros(round(0.075 * SAMPLE_RATE_HZ), np.int16)
    joined = [parts[0].samples]
    for part in parts[1:]:
        joined += [pause, part.samples]
    assert np.array_equal(speech.samples, np.concatenate(joined))
    assert progress[0][0] == 0
    assert progress[-1][0] == progress[-1][1] == sum(len(inputs["text"]) for inputs in sent)
    assert progress == sorted(progress)


def test_speaks_a_short_text_in_one_request_as_it_is(voice, peer):
    speech, parts = synthesize_long(voice, "  Two  words \n")
    assert len(parts) == 1
    assert peer.received[-1].inputs == {"text": b"  Two  words \n", "speed": 1.0}
    assert speech.seed == DRAWN_SEED


@pytest.mark.parametrize("value", [True, False])
async def test_normalise_and_what_was_dropped_pass_both_ways(peer, url, value):
    peer.dropped = {"emoji": 2}
    with Voice("en-joe", url) as voice:
        assert voice.synthesize("Hi.", normalise=value).dropped == {"emoji": 2}
        assert peer.received[-1].parameters == {"normalise": value}
        speech, _ = synthesize_long(voice, "Hello. " * 60, normalise=value)
    assert speech.dropped == {"emoji": 2 * (len(peer.received) - 1)}
    assert all(request.parameters == {"normalise": value} for request in peer.received)
    async with AsyncVoice("en-joe", url) as voice:
        assert (await voice.synthesize("Hi.", normalise=value)).dropped == {"emoji": 2}
    assert peer.received[-1].parameters == {"normalise": value}
