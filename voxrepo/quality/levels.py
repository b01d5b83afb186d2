"""Measures of one utterance: how loud, how much silence, how much of it at full scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FULL_SCALE = 32767
FRAME_S = 0.02
SILENCE_DBFS = -50.0
"""RMS of a frame below which it is a pause. Speech of voices here has -20 to -30 dBFS, its quietest sounds some 20 dB
less; pauses are zeros or noise below -60."""
GATE_DB = -20.0
"""Frames this far below the loud ones (the 95th percentile of all) do not count for the level. The gate moves with the
audio, so that twice as loud is 6.0 dB more, though fewer frames are pauses then."""
FLOOR_DBFS = -96.0
"""Given for what has no level at all: below the smallest step of 16 bits (-90 dBFS), and yet a number."""


@dataclass(frozen=True)
class Levels:
    """Measures of one utterance.

    Attributes:
        duration_s: its length.
        level_dbfs: root mean square of the frames with speech, full scale is 0; :data:`FLOOR_DBFS` without any.
        peak_dbfs: of the largest sample.
        clipped_ratio: share of the samples at full scale.
        silence_ratio: share of the frames of 20 ms that are pauses; 1 without any frame.
    """

    duration_s: float
    level_dbfs: float
    peak_dbfs: float
    clipped_ratio: float
    silence_ratio: float


def measure_levels(audio: npt.NDArray[np.int16], sample_rate_hz: int) -> Levels:
    """Measure an utterance; 10 s take about a millisecond.

    Args:
        audio: INT16 [N].
        sample_rate_hz: its rate.
    """
    samples = audio.reshape(-1)
    if samples.size == 0:
        return Levels(0.0, FLOOR_DBFS, FLOOR_DBFS, 0.0, 1.0)
    powers = frame_powers(samples, max(1, round(FRAME_S * sample_rate_hz)))
    level = active_power(powers)
    low, high = int(samples.min()), int(samples.max())
    clipped = 0
    if max(-low, high) >= FULL_SCALE:
        clipped = int(np.count_nonzero(samples >= FULL_SCALE) + np.count_nonzero(samples <= -FULL_SCALE))
    return Levels(
        duration_s=samples.size / sample_rate_hz,
        level_dbfs=dbfs(level),
        peak_dbfs=dbfs((max(-low, high) / FULL_SCALE) ** 2),
        clipped_ratio=clipped / samples.size,
        silence_ratio=int(np.count_nonzero(powers < _power(SILENCE_DBFS))) / powers.size,
    )


def active_power(powers: npt.NDArray[np.float32]) -> float:
    """Mean power of the frames with speech, 0 without any.

    Args:
        powers: of frames, full scale is 1.
    """
    if not powers.size:
        return 0.0
    gate = max(_power(SILENCE_DBFS), float(np.percentile(powers, 95)) * _power(GATE_DB))
    speech = powers[powers >= gate]
    return float(speech.mean()) if speech.size else 0.0


def frame_powers(samples: npt.NDArray[np.int16], frame_samples: int) -> npt.NDArray[np.float32]:
    """Mean square of each frame, full scale is 1: FP32 [frames]. A last frame that is not full counts as it is."""
    whole = samples.size // frame_samples
    frames = samples[: whole * frame_samples].reshape(whole, frame_samples).astype(np.float32)
    powers = np.einsum("ij,ij->i", frames, frames) / np.float32(frame_samples)
    rest = samples[whole * frame_samples :].astype(np.float32)
    if rest.size:
        powers = np.append(powers, np.float32(rest @ rest / rest.size))
    scaled: npt.NDArray[np.float32] = powers / np.float32(FULL_SCALE**2)
    return scaled


def dbfs(power: float) -> float:
    """A mean square in dB of full scale, at least :data:`FLOOR_DBFS`."""
    return max(FLOOR_DBFS, 10.0 * math.log10(power)) if power > 0 else FLOOR_DBFS


def _power(level_dbfs: float) -> float:
    return float(10.0 ** (level_dbfs / 10.0))
