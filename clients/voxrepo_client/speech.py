"""Synthesised speech and the audio containers it can be written to."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import soundfile

from voxrepo_client.errors import InvalidRequest

FORMATS: dict[str, tuple[str, str]] = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "ogg": ("OGG", "VORBIS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
"""Container and codec in libsndfile's names. Ogg holds Vorbis: Opus takes only five sample rates, 22,050 Hz is none."""

# libsndfile's Vorbis encoder keeps what it is given in one call on the stack; long calls overflow it
_FRAMES_PER_CALL = 1 << 15


def format_of(file: str | Path) -> str:
    """The format that a file name's suffix asks for.

    Raises:
        InvalidRequest: no suffix, or one of a format that is not offered.
    """
    suffix = Path(file).suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise InvalidRequest(
            f"cannot tell the audio format from the file name {str(file)!r}; "
            f"end it in one of {', '.join('.' + name for name in FORMATS)} or name the format"
        )
    return suffix


def encode(samples: npt.NDArray[np.int16], sample_rate_hz: int, format: str) -> bytes:
    """A complete audio file; a WAV header carries the exact sizes.

    Args:
        samples: int16 [N], mono.
        sample_rate_hz: of the samples.
        format: key of :data:`FORMATS`.

    Raises:
        InvalidRequest: the format is unknown or does not take this sample rate.
    """
    if format not in FORMATS:
        raise InvalidRequest(f"the audio format {format!r} is not offered; use one of {', '.join(FORMATS)}")
    container, codec = FORMATS[format]
    buffer = io.BytesIO()
    try:
        with soundfile.SoundFile(
            buffer, "w", samplerate=sample_rate_hz, channels=1, format=container, subtype=codec
        ) as sound:
            for start in range(0, len(samples), _FRAMES_PER_CALL):
                sound.write(samples[start : start + _FRAMES_PER_CALL])
    except soundfile.LibsndfileError as error:
        raise InvalidRequest(f"{format} cannot hold {sample_rate_hz} Hz mono: {error}") from error
    return buffer.getvalue()


class BinaryWriter(Protocol):
    """A file open for binary writing."""

    def write(self, data: bytes, /) -> object:
        """Take all of ``data``."""


@dataclass(frozen=True, eq=False)
class Speech:
    """What a voice answered.

    Attributes:
        samples: int16 [N], mono PCM.
        sample_rate_hz: of the samples.
        seed: what the server drew or was given; same seed, text and versions give the same audio. ``None`` from a
            server that does not say.
        versions: version of each stage that spoke, empty from a server that does not say.
        dropped: characters of the text that were not spoken, by reason (``emoji``, ``control`` ...); empty where all
            were, and from a server that does not say.
    """

    samples: npt.NDArray[np.int16]
    sample_rate_hz: int
    seed: int | None = None
    versions: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.sample_rate_hz

    def to_bytes(self, format: str = "wav") -> bytes:
        """A complete audio file in memory: ``wav``, ``flac``, ``ogg`` (Vorbis) or ``mp3``.

        Raises:
            InvalidRequest: the format is not offered or does not take the sample rate.
        """
        return encode(self.samples, self.sample_rate_hz, format)

    def write(self, target: str | Path | BinaryWriter, format: str | None = None) -> None:
        """Write an audio file; an existing one is replaced.

        Args:
            target: a path, or a file open for binary writing, which need not be seekable.
            format: as in :meth:`to_bytes`; by the suffix of the path if not given, ``wav`` for an open file.

        Raises:
            InvalidRequest: as :meth:`to_bytes`, or the suffix names no format.
            OSError: the file cannot be written.
        """
        if isinstance(target, (str, Path)):
            Path(target).write_bytes(self.to_bytes(format or format_of(target)))
        else:
            target.write(self.to_bytes(format or "wav"))


def join(parts: Sequence[Speech], pauses_ms: Sequence[float]) -> Speech:
    """Several speeches as one, in order.

    Args:
        parts: at least one; all at one sample rate.
        pauses_ms: silence after each part; the last is not used.

    Returns:
        The joined speech with the seed of the first part, the versions of the last and the drops of all.

    Raises:
        InvalidRequest: nothing to join, or the sample rates differ.
    """
    if not parts:
        raise InvalidRequest("there is nothing to join")
    rates_hz = sorted({part.sample_rate_hz for part in parts})
    if len(rates_hz) > 1:
        raise InvalidRequest(f"parts at {' and '.join(map(str, rates_hz))} Hz cannot be joined")
    pieces: list[npt.NDArray[np.int16]] = []
    for index, part in enumerate(parts):
        pieces.append(part.samples)
        if index < len(parts) - 1:
            pieces.append(np.zeros(round(pauses_ms[index] * rates_hz[0] / 1000), np.int16))
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    return Speech(np.concatenate(pieces), rates_hz[0], parts[0].seed, dict(parts[-1].versions), dict(dropped))
