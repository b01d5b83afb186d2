"""`voxrepo say --stream` against a server on real sockets."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import wave

import numpy as np
import pytest
import soundfile

from tests.clients.protocol_server import DRAWN_SEED, SAMPLE_RATE_HZ, VERSIONS, Failure, pieces, spoken
from tests.clients.test_client_cli import run  # noqa: F401

TEXT = "A text of a few pieces, that is all there is to say of it."


@pytest.fixture
def say(run):  # noqa: F811
    def invoke(*arguments, **options):
        return run("say", "--stream", *arguments, **options)

    return invoke


@pytest.mark.parametrize(("suffix", "container"), [("wav", "WAV"), ("flac", "FLAC"), ("ogg", "OGG"), ("mp3", "MP3")])
def test_writes_every_format(say, peer, tmp_path, suffix, container):
    result = say(TEXT, "-o", tmp_path / f"a.{suffix}")
    assert (result.exit_code, result.stdout) == (0, "")
    info = soundfile.info(tmp_path / f"a.{suffix}")
    assert (info.format, info.samplerate, info.frames) == (container, SAMPLE_RATE_HZ, len(spoken(TEXT)))
    if suffix in ("wav", "flac"):
        assert np.array_equal(soundfile.read(tmp_path / f"a.{suffix}", dtype="int16")[0], spoken(TEXT))
    assert peer.received[-1].model == "en-joe.stream"


def test_tells_the_times(say, tmp_path):
    result = say(TEXT, "-o", tmp_path / "a.wav")
    assert result.stderr.startswith("first piece after ")
    assert f"{len(spoken(TEXT)) / SAMPLE_RATE_HZ:.2f} s of audio at {SAMPLE_RATE_HZ} Hz" in result.stderr
    assert f"{len(pieces(spoken(TEXT)))} pieces, 0 too late" in result.stderr


def test_writes_raw_pcm_to_stdout(say):
    for arguments in ((), ("-o", "-"), ("-o", "-", "--format", "raw")):
        result = say(TEXT, *arguments)
        assert result.exit_code == 0
        assert np.array_equal(np.frombuffer(result.stdout_bytes, "<i2"), spoken(TEXT))


def test_writes_raw_pcm_to_a_file(say, tmp_path):
    assert say(TEXT, "-o", tmp_path / "a", "--format", "raw").exit_code == 0
    assert np.array_equal(np.fromfile(tmp_path / "a", "<i2"), spoken(TEXT))


def test_a_wav_on_stdout_can_be_read_to_its_end(say):
    sound = say(TEXT, "--format", "wav").stdout_bytes
    with wave.open(io.BytesIO(sound)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, SAMPLE_RATE_HZ)
        assert np.array_equal(np.frombuffer(file.readframes(len(sound)), "<i2"), spoken(TEXT))


def test_prints_a_summary(say, tmp_path):
    summary = json.loads(say(TEXT, "-o", tmp_path / "a.wav", "--json").stdout)
    assert 0 < summary.pop("first_piece_s") <= summary.pop("elapsed_s")
    assert summary.pop("real_time_factor") > 0
    assert summary == {
        "voice": "en-joe",
        "path": str(tmp_path / "a.wav"),
        "format": "wav",
        "duration_s": pytest.approx(len(spoken(TEXT)) / SAMPLE_RATE_HZ, abs=1e-5),
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "seed": DRAWN_SEED,
        "versions": VERSIONS,
        "dropped": {},
        "text_chars": len(TEXT),
        "requests": 1,
        "pieces": len(pieces(spoken(TEXT))),
        "underruns": 0,
    }


def test_a_long_document_streams_as_it_would_be_written_whole(run, say, peer, tmp_path):  # noqa: F811
    (tmp_path / "book.txt").write_text("It goes on and on. " * 30, "utf-8")
    peer.dropped = {"emoji": 1}
    arguments = ("--file", tmp_path / "book.txt", "--seed", 5, "--json", "-o")
    whole = json.loads(run("say", *arguments, tmp_path / "whole.wav").stdout)
    streamed = json.loads(say(*arguments, tmp_path / "streamed.wav").stdout)
    assert whole["requests"] == streamed["requests"] > 2
    assert whole["dropped"] == streamed["dropped"]
    assert (tmp_path / "whole.wav").read_bytes() == (tmp_path / "streamed.wav").read_bytes()


def _process(url, *arguments, **options):
    command = [sys.executable, "-c", "import typer; from voxrepo.cli.say import say; typer.run(say)", "--stream"]
    return subprocess.Popen([*command, *map(str, arguments)], env={**os.environ, "VOXREPO_URL": url}, **options)


def test_pieces_reach_the_player_and_the_file_as_they_come(url, peer, tmp_path):
    expected = pieces(spoken(TEXT))
    peer.piece_delay_s = 1.5
    with _process(url, TEXT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        first = process.stdout.read(2 * len(expected[0]))
        start_s = time.monotonic()
        process.stdout.read(2 * len(expected[1]))
        assert time.monotonic() - start_s > 0.7
        assert np.array_equal(np.frombuffer(first, "<i2"), expected[0])
        process.terminate()
    path = tmp_path / "a.wav"
    with _process(url, TEXT, "-o", path, stderr=subprocess.DEVNULL) as process:
        while not path.exists() or path.stat().st_size < 2 * len(expected[0]):
            time.sleep(0.02)
        # whole after every piece, while the rest is still being made
        assert soundfile.info(path).frames in (len(expected[0]), len(expected[0]) + len(expected[1]))
        process.kill()


def test_a_player_that_leaves_ends_the_request(url, peer):
    peer.piece_delay_s = 0.2
    with _process(url, TEXT * 20, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (1, b"")
    assert peer.cancelled.wait(5)


def test_a_failure_before_the_first_piece_keeps_the_old_file(say, peer, tmp_path):
    peer.fail = Failure("UNAVAILABLE", 503, "the queue is full")
    (tmp_path / "a.wav").write_bytes(b"old")
    result = say(TEXT, "-o", tmp_path / "a.wav")
    assert (result.exit_code, result.stderr) == (1, "error: the queue is full\n")
    assert (tmp_path / "a.wav").read_bytes() == b"old"


def test_a_failure_midway_says_how_much_was_written(say, peer, tmp_path):
    peer.fail, peer.fail_after = Failure("INTERNAL", 500, "internal error, id 3f"), 2
    result = say(TEXT, "-o", tmp_path / "a.wav")
    came = np.concatenate(pieces(spoken(TEXT))[:2])
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: internal error, id 3f; {len(came) / SAMPLE_RATE_HZ:.2f} s of audio were written before\n"
    )
    assert np.array_equal(soundfile.read(tmp_path / "a.wav", dtype="int16")[0], came)


def test_a_server_that_does_not_stream_is_told(say, peer, tmp_path):
    del peer.models["en-joe.stream"]
    result = say(TEXT, "-o", tmp_path / "a.wav")
    assert result.exit_code == 1
    assert "does not stream" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["Hi.", "--format", "flac"], "raw or wav to stdout, not flac"),
        (["Hi.", "-o", "a.pcm"], "cannot tell the audio format"),
        (["Hi.", "-o", "a.wav", "--format", "aac"], "use one of wav, flac, ogg, mp3, raw"),
        (["Hi.", "--json"], "-o FILE"),
    ],
)
def test_wrong_usage_exits_2_before_anything_is_spoken(say, peer, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    result = say(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert peer.received == []


def test_raw_samples_need_a_stream(run, tmp_path):  # noqa: F811
    result = run("say", "Hi.", "-o", tmp_path / "a", "--format", "raw")
    assert result.exit_code == 2
    assert "raw needs --stream" in result.stderr


def test_a_full_disk_exits_1(say):
    result = say("Hi.", "-o", "/dev/full", "--format", "raw")
    assert result.exit_code == 1
    assert "/dev/full cannot be written: No space left" in result.stderr
