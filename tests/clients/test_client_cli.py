"""`voxrepo say` and `voxrepo voices` against a server on real sockets."""

from __future__ import annotations

import io
import json
import os
import pty
import socket
import subprocess
import sys
import textwrap
import wave

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

from tests.clients.protocol_server import DRAWN_SEED, MAX_TEXT_CHARS, SAMPLE_RATE_HZ, VERSIONS, Failure, spoken
from voxrepo.cli.say import say
from voxrepo.cli.voices import voices

app = typer.Typer()
app.command("say")(say)
app.command("voices")(voices)


@pytest.fixture
def run(url, monkeypatch):
    monkeypatch.setenv("VOXREPO_URL", url)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: object, stdin: bytes | str | None = None):
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)

    return invoke


def _samples(path):
    samples, rate_hz = soundfile.read(path, dtype="int16")
    assert rate_hz == SAMPLE_RATE_HZ
    return samples


def test_says_to_a_wav_file_with_the_only_voice(run, tmp_path):
    result = run("say", "Hello there.", "-o", tmp_path / "a.wav")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert np.array_equal(_samples(tmp_path / "a.wav"), spoken("Hello there."))


@pytest.mark.parametrize(("suffix", "container"), [("flac", "FLAC"), ("ogg", "OGG"), ("mp3", "MP3")])
def test_says_to_the_format_of_the_suffix_or_of_the_option(run, tmp_path, suffix, container):
    assert run("say", "Hello.", "-o", tmp_path / f"a.{suffix}").exit_code == 0
    assert soundfile.info(tmp_path / f"a.{suffix}").format == container
    assert run("say", "Hello.", "-o", tmp_path / "b", "--format", suffix).exit_code == 0
    assert soundfile.info(tmp_path / "b").format == container
    assert len(_samples(tmp_path / "b")) == len(spoken("Hello."))


def test_passes_every_option_on(run, peer, tmp_path):
    options = (
        "--voice en-joe --speed 1.5 --speaker joe --seed 3 --noise-scale 0.1 --noise-w-scale 0.2 --no-normalise "
        "--timeout-s 9"
    )
    assert run("say", "Hi.", "-o", tmp_path / "a.wav", *options.split()).exit_code == 0
    request = peer.received[-1]
    assert request.inputs == {"text": b"Hi.", "speed": 1.5, "speaker": b"joe", "seed": 3}
    assert request.parameters == {"noise_scale": 0.1, "noise_w_scale": 0.2, "normalise": False, "timeout": 9_000_000}


@pytest.mark.parametrize("arguments", [("-o", "-"), ()])
@pytest.mark.parametrize("text", [("-",), ()])
def test_reads_stdin_and_writes_an_exact_wav_to_stdout(run, text, arguments):
    result = run("say", *text, *arguments, stdin="\ufeffGrüße.\n".encode())
    assert result.exit_code == 0
    with wave.open(io.BytesIO(result.stdout_bytes)) as file:
        assert file.getnframes() == len(spoken("Grüße.\n"))
        assert np.array_equal(np.frombuffer(file.readframes(10**9), "<i2"), spoken("Grüße.\n"))
    assert int.from_bytes(result.stdout_bytes[4:8], "little") == len(result.stdout_bytes) - 8


def test_writes_other_formats_to_stdout(run):
    result = run("say", "Hi.", "-o", "-", "--format", "flac")
    assert soundfile.info(io.BytesIO(result.stdout_bytes)).format == "FLAC"


def test_prints_a_summary(run, tmp_path):
    result = run("say", "Hello.", "-o", tmp_path / "a.wav", "--json")
    summary = json.loads(result.stdout)
    assert summary.pop("elapsed_s") > 0
    assert summary == {
        "voice": "en-joe",
        "path": str(tmp_path / "a.wav"),
        "format": "wav",
        "duration_s": pytest.approx(len(spoken("Hello.")) / SAMPLE_RATE_HZ, abs=1e-5),
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "seed": DRAWN_SEED,
        "versions": VERSIONS,
        "dropped": {},
        "text_chars": 6,
        "requests": 1,
    }


def test_the_summary_does_not_mix_with_audio_on_stdout(run):
    result = run("say", "Hello.", "-o", "-", "--json")
    assert json.loads(result.stderr)["path"] is None
    assert soundfile.info(io.BytesIO(result.stdout_bytes)).frames == len(spoken("Hello."))


def test_a_long_document_takes_several_requests_and_loses_nothing(run, peer, tmp_path):
    text = "\n\n".join(textwrap.fill(f"Paragraph {i}. " + "It goes on and on. " * 5) for i in range(6))
    (tmp_path / "book.txt").write_text(text, "utf-8")
    result = run("say", "--file", tmp_path / "book.txt", "-o", tmp_path / "a.wav", "--json")
    sent = [request.inputs for request in peer.received]
    assert json.loads(result.stdout)["requests"] == len(sent) > 2
    assert all(len(inputs["text"]) <= MAX_TEXT_CHARS for inputs in sent)
    assert "".join("".join(inputs["text"].decode().split()) for inputs in sent) == "".join(text.split())
    assert len({inputs["seed"] for inputs in sent}) == 1
    audio_samples = sum(len(spoken(inputs["text"].decode(), seed=inputs["seed"])) for inputs in sent)
    assert len(_samples(tmp_path / "a.wav")) > audio_samples


def test_a_long_argument_is_sent_whole(run, peer, tmp_path):
    assert run("say", "x" * (MAX_TEXT_CHARS + 1), "-o", tmp_path / "a.wav").exit_code == 0
    assert [len(request.inputs["text"]) for request in peer.received] == [MAX_TEXT_CHARS + 1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["Hi.", "-o", "a"], "cannot tell the audio format"),
        (["Hi.", "-o", "a.aac"], "cannot tell the audio format"),
        (["Hi.", "-o", "a.wav", "--format", "aac"], "aac is not offered"),
        (["Hi.", "-o", "missing/a.wav"], "folder missing does not exist"),
        (["Hi.", "-o", "folder.wav"], "is a folder"),
        (["Hi.", "--json"], "-o FILE"),
        (["Hi.", "-o", "a.wav", "--file", "text"], "not both"),
        (["-", "-o", "a.wav", "--file", "text"], "not both"),
        (["-o", "a.wav", "--file", "nowhere"], "nowhere cannot be read"),
        (["-o", "a.wav", "--file", "latin1"], "latin1 is not valid UTF-8 at byte 2"),
        (["Hi.", "-o", "a.wav", "--url", "ftp://x"], "ftp"),
        (["Hi.", "-o", "a.wav", "--noise-scale", "nan"], "noise_scale is nan"),
        (["Hi.", "-o", "a.wav", "--timeout-s", "0"], "timeout_s"),
        (["Hi.", "-o", "a.wav", "--speed", "fast"], "--speed"),
    ],
)
def test_wrong_usage_exits_2_before_anything_is_spoken(run, peer, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "text").write_text("Hi.")
    (tmp_path / "latin1").write_bytes("Grüße".encode("latin-1"))
    result = run("say", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert peer.received == []
    assert not (tmp_path / "a.wav").exists()


def test_asks_which_voice_where_there_are_several(run, peer, tmp_path):
    peer.add_voice("de-eva", ["eva"])
    result = run("say", "Hi.", "-o", tmp_path / "a.wav")
    assert result.exit_code == 2
    assert "--voice: de-eva, en-joe" in result.stderr


def test_says_that_there_is_no_voice(run, peer, tmp_path):
    peer.models.clear()
    result = run("say", "Hi.", "-o", tmp_path / "a.wav")
    assert result.exit_code == 1
    assert "no voice that is ready" in result.stderr


@pytest.mark.parametrize(
    "failure",
    [
        Failure("INVALID_ARGUMENT", 400, "speed is 9; it must be from 0.25 to 4"),
        Failure("UNAVAILABLE", 503, "the queue is full"),
        Failure("INTERNAL", 500, "internal error, id 3f"),
    ],
)
def test_a_failure_of_the_server_exits_1_and_keeps_the_old_file(run, peer, tmp_path, failure):
    peer.fail = failure
    (tmp_path / "a.wav").write_bytes(b"old")
    result = run("say", "Hi.", "-o", tmp_path / "a.wav")
    assert result.exit_code == 1
    assert result.stderr == f"error: {failure.text}\n"
    assert (tmp_path / "a.wav").read_bytes() == b"old"


def test_a_full_disk_exits_1(run):
    result = run("say", "Hi.", "-o", "/dev/full", "--format", "wav")
    assert result.exit_code == 1
    assert "/dev/full cannot be written: No space left" in result.stderr


def _process(url, *arguments, closed=None, **options):
    code = "import typer; from voxrepo.cli.say import say; typer.run(say)"
    environment = {**os.environ, "VOXREPO_URL": url, "TERM": "xterm"}
    command = [sys.executable, "-c", code, *arguments]
    if closed is not None:
        # by the shell: a function that runs between fork and exec can abort where gRPC's threads are about
        command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command]
    return subprocess.Popen(command, env=environment, **options)


def test_a_reader_that_leaves_exits_1_without_a_traceback(url):
    with _process(url, "long " * 20_000, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 1
    assert errors == b""


@pytest.mark.parametrize(
    ("arguments", "closed", "says"),
    [(["Hi."], 1, b"stdout is closed; give -o FILE"), (["-o", "a.wav"], 0, b"no text; give it as an argument")],
)
def test_a_closed_stream_is_said_in_one_sentence(url, tmp_path, arguments, closed, says):
    with _process(url, *arguments, closed=closed, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        errors = process.stderr.read()
    assert process.returncode == 2
    assert says in errors
    assert b"Traceback" not in errors


def test_a_proxy_in_the_environment_is_not_asked_for_a_server_of_this_machine(url, tmp_path, monkeypatch):
    with socket.socket() as proxy:  # bound, and never answering
        proxy.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, address)
        for name in ("no_proxy", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        with _process(url, "Hi.", "-o", str(tmp_path / "a.wav"), stderr=subprocess.PIPE) as process:
            errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")


def test_shows_progress_on_a_terminal_and_writes_no_audio_to_one(peer, tmp_path):
    peer.delay_s = 0.3
    controller, terminal = pty.openpty()
    try:
        with _process(peer.grpc_url, "Hi.", "-o", str(tmp_path / "a.wav"), stderr=terminal) as process:
            assert process.wait(30) == 0
        assert b"speaking" in os.read(controller, 65536)
        with _process(peer.grpc_url, "Hi.", stdout=terminal, stderr=subprocess.PIPE) as process:
            errors = process.stderr.read()
        assert process.returncode == 2
        assert b"not written to a terminal" in errors
        with _process(peer.grpc_url, "-o", str(tmp_path / "a.wav"), stdin=terminal, stderr=subprocess.PIPE) as process:
            errors = process.stderr.read()
        assert process.returncode == 2
        assert b"no text" in errors
    finally:
        os.close(controller)
        os.close(terminal)


def test_lists_voices_as_json(run, peer):
    peer.add_voice("de-eva", ["eva", "kim"])
    result = run("voices", "--json")
    assert result.exit_code == 0
    listed = json.loads(result.stdout)
    assert [voice["name"] for voice in listed] == ["de-eva", "en-joe"]
    assert listed[0] == {
        "name": "de-eva",
        "language": "en-US",
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "speakers": ["eva", "kim"],
        "max_text_chars": MAX_TEXT_CHARS,
        "versions": VERSIONS,
    }


def test_lists_voices_as_a_table(run, peer):
    peer.add_voice("multi", [f"[s{i}]" for i in range(6)])
    result = run("voices")
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "multi" in line]
    for cell in ("en-US", "22050 Hz", "[s0], [s1], [s2], [s3] and 2 more", f"up to {MAX_TEXT_CHARS}", "acoustic 2"):
        assert cell in line


def test_listing_no_voices_is_no_failure(run, peer):
    peer.models.clear()
    assert json.loads(run("voices", "--json").stdout) == []
    assert "no voice is ready" in run("voices").stderr


def test_listing_from_nowhere_fails(run):
    result = run("voices", "--url", "grpc://no-such-host.invalid:1")
    assert result.exit_code == 1
    assert "no-such-host.invalid" in result.stderr
    assert run("voices", "--url", "ftp://x").exit_code == 2


def test_says_what_was_left_out(run, peer, tmp_path):
    peer.dropped = {"emoji": 2, "control": 1}
    result = run("say", "Hello.", "-o", tmp_path / "a.wav", "--json")
    assert result.stderr == "left out: 2 emoji, 1 control\n"
    assert json.loads(result.stdout)["dropped"] == {"emoji": 2, "control": 1}


def test_sums_what_was_left_out_over_the_requests_of_a_document(run, peer, tmp_path):
    peer.dropped = {"emoji": 1}
    (tmp_path / "book.txt").write_text("It goes on and on. " * 30, "utf-8")
    result = run("say", "--file", tmp_path / "book.txt", "-o", tmp_path / "a.wav", "--json")
    assert json.loads(result.stdout)["dropped"] == {"emoji": len(peer.received)}
    assert len(peer.received) > 1
