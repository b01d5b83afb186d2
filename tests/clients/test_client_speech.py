"""Audio containers, read back with soundfile and the standard library."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest
import soundfile
from voxrepo_client import InvalidRequest, Speech
from voxrepo_client.speech import FORMATS, format_of, join


def _tone(seconds: float = 1.5, rate_hz: int = 22050) -> Speech:
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return Speech((8000 * np.sin(2 * np.pi * 440 * t)).astype(np.int16), rate_hz, 1, {"acoustic": 1})


@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 24000, 44100, 48000])
@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_reads_back(name, rate_hz):
    speech = _tone(rate_hz=rate_hz)
    raw = speech.to_bytes(name)
    info = soundfile.info(io.BytesIO(raw))
    assert (info.format, info.subtype, info.channels, info.samplerate) == (*FORMATS[name], 1, rate_hz)
    samples, _ = soundfile.read(io.BytesIO(raw), dtype="int16")
    assert len(samples) == len(speech.samples)
    if name in ("wav", "flac"):
        assert np.array_equal(samples, speech.samples)
    else:
        # lossy: the difference stays 20 dB under the tone, and nothing is shifted
        error = samples.astype(float) - speech.samples
        assert np.sqrt(np.mean(error**2)) < 0.1 * np.sqrt(np.mean(speech.samples.astype(float) ** 2))


@pytest.mark.parametrize("seconds", [0.0, 0.02, 3.0])
def test_a_wav_header_carries_the_exact_sizes(seconds):
    speech = _tone(seconds)
    raw = speech.to_bytes("wav")
    assert struct.unpack_from("<4sI", raw) == (b"RIFF", len(raw) - 8)
    data_at = raw.index(b"data")
    assert struct.unpack_from("<I", raw, data_at + 4) == (2 * len(speech.samples),)
    assert len(raw) == data_at + 8 + 2 * len(speech.samples)
    with wave.open(io.BytesIO(raw)) as file:
        assert file.getparams()[:4] == (1, 2, 22050, len(speech.samples))


def test_a_long_ogg_is_encoded():
    noise = np.random.default_rng(0).integers(-3000, 3000, 22050 * 120, dtype=np.int16)
    assert soundfile.info(io.BytesIO(Speech(noise, 22050).to_bytes("ogg"))).frames == len(noise)


def test_writes_by_suffix_and_replaces(tmp_path):
    path = tmp_path / "a.FLAC"
    path.write_bytes(b"old" * 100_000)
    _tone().write(path)
    assert soundfile.info(path).format == "FLAC"
    _tone().write(str(tmp_path / "named"), "mp3")
    assert soundfile.info(tmp_path / "named").format == "MP3"


def test_writes_to_a_file_that_cannot_seek():
    class Pipe:
        def __init__(self) -> None:
            self.got = b""

        def write(self, data: bytes, /) -> int:
            self.got += data
            return len(data)

    pipe = Pipe()
    _tone().write(pipe)
    assert pipe.got == _tone().to_bytes("wav")


@pytest.mark.parametrize("name", ["a", "a.opus", "a.aac", ".wav"])
def test_refuses_a_file_name_that_names_no_format(name):
    with pytest.raises(InvalidRequest, match="cannot tell the audio format"):
        format_of(name)


def test_refuses_a_format_or_a_rate_that_a_format_does_not_take():
    with pytest.raises(InvalidRequest, match="'aac' is not offered"):
        _tone().to_bytes("aac")
    with pytest.raises(InvalidRequest, match="mp3 cannot hold 23456 Hz"):
        _tone(rate_hz=23456).to_bytes("mp3")


def test_knows_its_length():
    assert _tone(1.5).duration_s == pytest.approx(1.5)


def test_joins_with_silence_between_but_not_after():
    a, b = Speech(np.full(10, 1, np.int16), 1000, 5), Speech(np.full(5, 2, np.int16), 1000, 6, {"acoustic": 9})
    joined = join([a, b], [3, 100])
    assert joined.samples.tolist() == [1] * 10 + [0] * 3 + [2] * 5
    assert (joined.seed, joined.versions) == (5, {"acoustic": 9})


def test_refuses_to_join_different_rates_or_nothing():
    with pytest.raises(InvalidRequest, match="1000 and 2000 Hz"):
        join([Speech(np.zeros(1, np.int16), 1000), Speech(np.zeros(1, np.int16), 2000)], [0, 0])
    with pytest.raises(InvalidRequest, match="nothing"):
        join([], [])
