"""The client side against the whole server with its default voice."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from voxrepo_client import (
    AsyncVoice,
    InvalidRequest,
    TimedOut,
    Voice,
    VoiceNotFound,
    list_voices,
    synthesize_long,
)
from voxrepo_client.load import SENTENCES, run

pytestmark = pytest.mark.e2e

VOICE = "en-joe"
TEXT = "The boat arrived at noon, and everybody went home."
EXAMPLES = Path(__file__).parents[2] / "clients" / "examples"


@pytest.fixture(params=["grpc", "http"])
def url(request: pytest.FixtureRequest, server: Any) -> str:
    return f"grpc://{server.grpc_url}" if request.param == "grpc" else f"http://{server.http_url}"


def _command(*arguments: object, url: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "voxrepo", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, "VOXREPO_URL": url},
        timeout=120,
        check=False,
    )


def _looks_like_speech(samples: npt.NDArray[np.int16], rate_hz: int, text: str) -> None:
    seconds = len(samples) / rate_hz
    assert 0.03 * len(text) < seconds < 0.15 * len(text)
    level = np.sqrt(np.mean(samples.astype(np.float64) ** 2))
    assert 300 < level < 15_000


async def test_both_transports_and_both_clients_give_the_same_audio(server):
    urls = [f"grpc://{server.grpc_url}", f"http://{server.http_url}"]
    speeches = []
    for url in urls:
        with Voice(VOICE, url) as voice:
            speeches.append(voice.synthesize(TEXT, seed=7))
        async with AsyncVoice(VOICE, url) as voice:
            speeches.append(await voice.synthesize(TEXT, seed=7))
    first = speeches[0]
    _looks_like_speech(first.samples, first.sample_rate_hz, TEXT)
    assert first.seed == 7
    assert set(first.versions) == {"text_frontend", "acoustic", "vocoder"}
    for speech in speeches[1:]:
        assert np.array_equal(speech.samples, first.samples)
        assert (speech.sample_rate_hz, speech.seed, speech.versions) == (
            first.sample_rate_hz,
            first.seed,
            first.versions,
        )


def test_a_drawn_seed_gives_the_same_audio_again(url):
    with Voice(VOICE, url) as voice:
        once, other = voice.synthesize(TEXT), voice.synthesize(TEXT)
        assert once.seed != other.seed
        assert np.array_equal(voice.synthesize(TEXT, seed=once.seed).samples, once.samples)


def test_speed_and_noise_are_heard(url):
    with Voice(VOICE, url) as voice:
        plain = voice.synthesize(TEXT, seed=1)
        fast = voice.synthesize(TEXT, seed=1, speed=2.0)
        calm = voice.synthesize(TEXT, seed=1, noise_scale=0.0)
    assert 0.4 < fast.duration_s / plain.duration_s < 0.65
    assert not np.array_equal(calm.samples, plain.samples)


def test_threads_get_the_audio_of_their_own_text(url):
    with Voice(VOICE, url) as voice:
        solo = [voice.synthesize(text, seed=i).samples for i, text in enumerate(SENTENCES)]
        with ThreadPoolExecutor(len(SENTENCES)) as pool:
            together = list(pool.map(lambda i: voice.synthesize(SENTENCES[i], seed=i), range(len(SENTENCES))))
    for alone, speech in zip(solo, together, strict=True):
        assert np.array_equal(alone, speech.samples)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"text": ""}, "text"),
        ({"text": " \n "}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"text": "x" * 5000}, "4096"),
        ({"speed": 9.0}, "speed"),
        ({"speed": float("nan")}, "speed"),
        ({"speaker": "nobody"}, "nobody"),
        ({"noise_scale": 77.0}, "noise_scale"),
    ],
)
async def test_bad_input_is_an_invalid_request_that_names_it(url, arguments, says):
    call = {"text": TEXT, **arguments}
    with Voice(VOICE, url) as voice, pytest.raises(InvalidRequest, match=says) as blocking:
        voice.synthesize(**call)
    async with AsyncVoice(VOICE, url) as voice:
        with pytest.raises(InvalidRequest, match=says):
            await voice.synthesize(**call)
    assert blocking.value.code in ("INVALID_ARGUMENT", "400")


def test_an_unknown_voice_is_named(url):
    with Voice("nobody", url) as voice, pytest.raises(VoiceNotFound, match="nobody"):
        voice.synthesize(TEXT)


async def test_a_short_limit_times_out_and_the_server_goes_on(url):
    with Voice(VOICE, url) as voice:
        with pytest.raises(TimedOut):
            voice.synthesize(TEXT * 20, timeout_s=0.02)
        assert voice.synthesize(TEXT, seed=3).duration_s > 1
    async with AsyncVoice(VOICE, url) as voice:
        task = asyncio.create_task(voice.synthesize(TEXT * 20))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await voice.synthesize(TEXT, seed=3)).duration_s > 1


def test_the_voice_is_listed_with_its_details(url):
    (voice,) = [voice for voice in list_voices(url) if voice.name == VOICE]
    assert voice.language is not None
    assert voice.language.startswith("en")
    assert voice.sample_rate_hz == 22050
    assert voice.max_text_chars == 4096
    assert len(voice.speakers) == 1
    assert set(voice.versions) == {"text_frontend", "acoustic", "vocoder"}


def test_a_document_over_the_limit_is_spoken_in_parts(url):
    text = " ".join(SENTENCES)
    with Voice(VOICE, url) as voice:
        speech, parts = synthesize_long(voice, text, max_text_chars=200, seed=5)
        assert len(parts) > 2
        _looks_like_speech(speech.samples, speech.sample_rate_hz, text)


def test_the_load_generator_measures_without_errors(url):
    report = run(VOICE, SENTENCES, url=url, clients=2, duration_s=3.0, warmup_s=0.5)
    assert report.errors == {}
    assert report.audio_s_per_s > 1


@pytest.mark.parametrize(("suffix", "container"), [("wav", "WAV"), ("flac", "FLAC"), ("ogg", "OGG"), ("mp3", "MP3")])
def test_say_writes_every_format(server, tmp_path, suffix, container):
    path = tmp_path / f"a.{suffix}"
    done = _command("say", TEXT, "-o", path, "--seed", 7, "--json", url=server.grpc_url)
    assert done.returncode == 0, done.stderr
    info = soundfile.info(path)
    summary = json.loads(done.stdout)
    assert (info.format, info.samplerate) == (container, summary["sample_rate_hz"])
    assert info.duration == pytest.approx(summary["duration_s"], abs=0.1)
    assert (summary["voice"], summary["seed"]) == (VOICE, 7)


def test_say_reads_stdin_and_writes_an_exact_wav_to_stdout(server):
    done = _command("say", "-", "-o", "-", "--seed", 7, url=f"http://{server.http_url}", stdin=TEXT.encode())
    assert done.returncode == 0, done.stderr
    with wave.open(io.BytesIO(done.stdout)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        assert len(samples) == file.getnframes()
    assert int.from_bytes(done.stdout[4:8], "little") == len(done.stdout) - 8
    with Voice(VOICE, f"grpc://{server.grpc_url}") as voice:
        assert np.array_equal(samples, voice.synthesize(TEXT, seed=7).samples)


def test_say_fails_with_the_sentence_of_the_server(server, tmp_path):
    done = _command("say", TEXT, "-o", tmp_path / "a.wav", "--speaker", "nobody", url=server.grpc_url)
    assert done.returncode == 1
    assert b"nobody" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "a.wav").exists()


def test_voices_lists_the_voice(server):
    done = _command("voices", "--json", url=server.grpc_url)
    assert done.returncode == 0, done.stderr
    assert VOICE in [voice["name"] for voice in json.loads(done.stdout)]
    assert VOICE.encode() in _command("voices", url=f"http://{server.http_url}").stdout


def _samples(path: Path) -> npt.NDArray[np.int16]:
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def _example(*arguments: object) -> None:
    done = subprocess.run([*map(str, arguments)], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_plain_tritonclient_examples_agree(server, tmp_path):
    _example(sys.executable, EXAMPLES / "plain_grpc.py", TEXT, tmp_path / "g.wav", VOICE, server.grpc_url)
    _example(sys.executable, EXAMPLES / "plain_http.py", TEXT, tmp_path / "h.wav", VOICE, server.http_url)
    with Voice(VOICE, server.grpc_url) as voice:
        expected = voice.synthesize(TEXT, seed=7, noise_scale=0.5).samples
    assert np.array_equal(_samples(tmp_path / "g.wav"), expected)
    assert np.array_equal(_samples(tmp_path / "h.wav"), expected)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_example_agrees(server, tmp_path):
    text = 'She said "yes", didn\'t she?'
    _example("sh", EXAMPLES / "curl.sh", text, tmp_path, VOICE, f"http://{server.http_url}")
    with Voice(VOICE, server.grpc_url) as voice:
        expected = voice.synthesize(text, seed=7).samples
    assert np.array_equal(_samples(tmp_path / "generate.wav"), expected)
    assert np.array_equal(_samples(tmp_path / "infer.wav"), expected)


def test_the_asyncio_example_speaks_eight_texts(url, tmp_path):
    _example(sys.executable, EXAMPLES / "async_many.py", tmp_path, VOICE, url)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{i}.wav" for i in range(1, 9)]
    with Voice(VOICE, url) as voice:
        assert np.array_equal(_samples(tmp_path / "6.wav"), voice.synthesize("Six.", seed=6).samples)


async def test_streamed_pieces_joined_are_the_unary_answer(url):
    text = " ".join(SENTENCES[:3])
    with Voice(VOICE, url) as voice:
        whole = voice.synthesize(text, seed=11, speed=1.2)
        stream = voice.stream(text, seed=11, speed=1.2)
        pieces = list(stream)
        for piece in voice.stream(text):  # left early
            assert len(piece)
            break
        other = voice.synthesize(TEXT, seed=1)
    assert len(pieces) > 2
    assert np.array_equal(np.concatenate(pieces), whole.samples)
    assert (stream.sample_rate_hz, stream.seed, stream.versions) == (whole.sample_rate_hz, 11, whole.versions)
    assert stream.timing.first_piece_s < stream.timing.arrivals_s[-1]
    async with AsyncVoice(VOICE, url) as asynchronous:
        streams = [asynchronous.stream(text, seed=11, speed=1.2), asynchronous.stream(TEXT, seed=1)]
        together = await asyncio.gather(*(each.collect() for each in streams))
    assert np.array_equal(together[0].samples, whole.samples)
    assert np.array_equal(together[1].samples, other.samples)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"text": ""}, "text"),
        ({"text": "x" * 5000}, "4096"),
        ({"speaker": "nobody"}, "nobody"),
        ({"speed": 9.0}, "speed"),
    ],
)
async def test_streams_get_the_errors_of_unary_calls(url, arguments, says):
    call = {"text": TEXT, **arguments}
    with Voice(VOICE, url) as voice:
        with pytest.raises(InvalidRequest, match=says) as streamed:
            voice.stream(**call).collect()
        with pytest.raises(InvalidRequest) as unary:
            voice.synthesize(**call)
    assert (streamed.value.code, streamed.value.message) == (unary.value.code, unary.value.message)
    async with AsyncVoice(VOICE, url) as asynchronous:
        with pytest.raises(InvalidRequest, match=says):
            await asynchronous.stream(**call).collect()


def test_a_stream_times_out_with_what_it_received_or_nothing(url):
    with Voice(VOICE, url) as voice:
        with pytest.raises(TimedOut):
            voice.stream(TEXT * 40, timeout_s=0.3).collect()
        assert voice.stream(TEXT, seed=3).collect().duration_s > 1


def test_streaming_an_unknown_voice_names_it(url):
    with Voice("nobody", url) as voice, pytest.raises(VoiceNotFound, match="'nobody'"):
        voice.stream(TEXT).collect()


def test_the_load_generator_streams_without_errors(url):
    report = run(VOICE, SENTENCES, url=url, clients=2, duration_s=4.0, warmup_s=0.5, stream=True)
    assert report.errors == {}
    assert report.summary()["stream"]["pieces"] >= report.summary()["stream"]["streams"] > 0


def test_say_streams_what_it_would_write_whole(server, tmp_path):
    whole = _command("say", TEXT, "-o", tmp_path / "w.wav", "--seed", 7, url=server.grpc_url)
    streamed = _command("say", TEXT, "--stream", "-o", tmp_path / "s.wav", "--seed", 7, url=server.grpc_url)
    raw = _command("say", TEXT, "--stream", "--seed", 7, url=f"http://{server.http_url}")
    assert (whole.returncode, streamed.returncode, raw.returncode) == (0, 0, 0), (streamed.stderr, raw.stderr)
    assert (tmp_path / "w.wav").read_bytes() == (tmp_path / "s.wav").read_bytes()
    assert np.array_equal(np.frombuffer(raw.stdout, "<i2"), _samples(tmp_path / "w.wav"))
    assert b"first piece after" in raw.stderr


def test_the_streaming_tritonclient_example_agrees(server, tmp_path):
    _example(sys.executable, EXAMPLES / "stream_grpc.py", TEXT, tmp_path / "s.wav", VOICE, server.grpc_url)
    with Voice(VOICE, server.grpc_url) as voice:
        assert np.array_equal(_samples(tmp_path / "s.wav"), voice.synthesize(TEXT, seed=7, noise_scale=0.5).samples)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_streaming_curl_example_agrees(server):
    text = 'She said "yes", didn\'t she?'
    command = ["sh", EXAMPLES / "curl_stream.sh", text, VOICE, f"http://{server.http_url}"]
    done = subprocess.run([*map(str, command)], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with Voice(VOICE, server.grpc_url) as voice:
        assert np.array_equal(np.frombuffer(done.stdout, "<i2"), voice.synthesize(text, seed=7).samples)
    command = ["sh", EXAMPLES / "curl_stream.sh", "", VOICE, f"http://{server.http_url}"]
    refused = subprocess.run([*map(str, command)], capture_output=True, timeout=120, check=False)
    assert refused.returncode != 0
    assert b"text" in refused.stderr
