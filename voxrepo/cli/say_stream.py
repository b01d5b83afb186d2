"""``voxrepo say --stream``: audio that is written piece by piece, as it is made."""

from __future__ import annotations

import struct
import sys
import time
import wave
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
from voxrepo_client import InvalidRequest, SpeechStream, StreamTiming, Voice, VoxrepoClientError, stream_long
from voxrepo_client.speech import FORMATS

RAW = "raw"
"""Samples alone: 16 bits, little-endian, mono."""

STDOUT_FORMATS = (RAW, "wav")
"""What can be written in pieces where nothing can be corrected later."""

Samples = npt.NDArray[np.int16]
Write = Callable[[Samples], None]

_UNKNOWN_BYTES = 0xFFFFFFFF  # what players take as: until the end


@dataclass(frozen=True)
class Streamed:
    """What was spoken.

    Attributes:
        sample_rate_hz: of the audio.
        seed: of the first request.
        versions: of each request.
        dropped: characters that were not spoken, by reason.
        timing: when the pieces came, from before the first request.
    """

    sample_rate_hz: int
    seed: int | None
    versions: tuple[dict[str, int], ...]
    dropped: dict[str, int]
    timing: StreamTiming

    def sentence(self) -> str:
        """The times, for people."""
        timing = self.timing
        return (
            f"first piece after {timing.first_piece_s * 1000:.0f} ms; {timing.audio_s:.2f} s of audio at "
            f"{self.sample_rate_hz} Hz in {timing.arrivals_s[-1]:.2f} s (real-time factor "
            f"{timing.real_time_factor:.2f}), {len(timing.pieces_s)} pieces, {timing.underruns} too late for playback"
        )

    def summary(self) -> dict[str, Any]:
        """The times, for scripts."""
        timing = self.timing
        return {
            "first_piece_s": round(timing.first_piece_s, 6),
            "pieces": len(timing.pieces_s),
            "real_time_factor": round(timing.real_time_factor, 6),
            "underruns": timing.underruns,
        }


def wav_header(sample_rate_hz: int) -> bytes:
    """The header of a WAV file whose length is not known: 16-bit mono PCM."""
    return (
        struct.pack("<4sI4s", b"RIFF", _UNKNOWN_BYTES, b"WAVE")
        + struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate_hz, 2 * sample_rate_hz, 2, 16)
        + struct.pack("<4sI", b"data", _UNKNOWN_BYTES)
    )


def _pcm(samples: Samples) -> bytes:
    return samples.astype("<i2", copy=False).tobytes()


@contextmanager
def open_sink(path: Path | None, format: str, sample_rate_hz: int) -> Iterator[Write]:
    """Something that takes samples and has written them when it returns.

    Args:
        path: the file, which is replaced; ``None`` for stdout.
        format: :data:`RAW` or a key of :data:`FORMATS`; on stdout one of :data:`STDOUT_FORMATS`. A WAV file is valid
            after every piece; on stdout its header leaves the length open.
        sample_rate_hz: of the samples.

    Raises:
        InvalidRequest: the format does not take this sample rate.
    """
    if path is None or format == RAW:
        with nullcontext(sys.stdout.buffer) if path is None else path.open("wb") as out:
            if format != RAW:
                out.write(wav_header(sample_rate_hz))

            def write_bytes(samples: Samples) -> None:
                out.write(_pcm(samples))
                out.flush()

            yield write_bytes
    elif format == "wav":
        with path.open("w+b") as file, wave.open(file, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(sample_rate_hz)

            def write_frames(samples: Samples) -> None:
                sound.writeframes(_pcm(samples))  # corrects the header each time
                file.flush()

            yield write_frames
    else:
        container, codec = FORMATS[format]
        try:
            encoder = soundfile.SoundFile(
                path, "w", samplerate=sample_rate_hz, channels=1, format=container, subtype=codec
            )
        except soundfile.LibsndfileError as error:
            raise InvalidRequest(f"{format} cannot hold {sample_rate_hz} Hz mono: {error}") from error
        with encoder:

            def encode(samples: Samples) -> None:
                for start in range(0, len(samples), 1 << 15):  # libsndfile's Vorbis keeps a call's samples on its stack
                    encoder.write(samples[start : start + (1 << 15)])
                encoder.flush()

            yield encode


def stream_to(path: Path | None, format: str, voice: Voice, text: str, **options: Any) -> Streamed:
    """Speak ``text`` and write each piece as it comes; nothing is opened before there is one.

    Args:
        path: as of :func:`open_sink`.
        format: as of :func:`open_sink`.
        voice: who speaks.
        text: of any length.
        options: as of :func:`voxrepo_client.stream_long`.

    Raises:
        VoxrepoClientError: the server failed; the sentence says how much has been written.
        OSError: the audio cannot be written.
    """
    start_s = time.perf_counter()
    streams: list[SpeechStream] = []
    arrivals_s: list[float] = []
    sizes: list[int] = []
    try:
        with closing(stream_long(voice, text, **options)) as pieces:
            stream, samples = next(pieces)
            rate_hz = stream.sample_rate_hz or 0
            with open_sink(path, format, rate_hz) as write:
                while True:
                    if not streams or streams[-1] is not stream:
                        streams.append(stream)
                    arrivals_s.append(time.perf_counter() - start_s)
                    sizes.append(len(samples))
                    write(samples)
                    following = next(pieces, None)
                    if following is None:
                        break
                    stream, samples = following
    except VoxrepoClientError as error:
        if sizes:
            error.message += f"; {sum(sizes) / rate_hz:.2f} s of audio were written before"
        raise
    dropped: Counter[str] = Counter()
    for each in streams:
        dropped.update(each.dropped)
    timing = StreamTiming(tuple(arrivals_s), tuple(size / rate_hz for size in sizes))
    return Streamed(rate_hz, streams[0].seed, tuple(each.versions for each in streams), dict(dropped), timing)
