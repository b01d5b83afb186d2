"""Waveforms to PCM, with the checks that keep noise and silence from being sent as speech."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import Internal
from voxrepo_contract.pieces import pause_samples

INT16_FULL_SCALE = 32767

SILENCE_PEAK = 1e-3
"""-60 dBFS. A whole utterance below it is not speech but a failed vocoder (fp16 overflow is the usual cause)."""


def to_int16(waveform: npt.NDArray[np.float32], gain: float) -> npt.NDArray[np.int16]:
    """Scale FP32 samples in [-1, 1] to INT16, rounding to nearest; samples beyond full scale are clipped.

    Raises:
        Internal: a sample is NaN or infinite.
    """
    scaled = waveform * np.float32(gain * INT16_FULL_SCALE)
    if not np.isfinite(scaled).all():
        raise Internal("the vocoder returned samples that are not finite numbers")
    clipped: npt.NDArray[np.float32] = np.clip(np.rint(scaled), -INT16_FULL_SCALE - 1, INT16_FULL_SCALE)
    return clipped.astype(np.int16)


def check_audible(segments: Sequence[npt.NDArray[np.int16]]) -> None:
    """Refuse an utterance that is silent throughout, or stands still: a constant is not heard either.

    Args:
        segments: INT16 samples of each segment, without the pauses between.

    Raises:
        Internal: no segment reaches -60 dBFS and moves by as much.
    """
    loudest = 0
    for samples in segments:
        low, high = int(samples.min(initial=INT16_FULL_SCALE)), int(samples.max(initial=-INT16_FULL_SCALE))
        loudest = max(loudest, min(max(-low, high), high - low))
    if loudest / INT16_FULL_SCALE < SILENCE_PEAK:
        raise Internal(f"the vocoder returned silence (peak {loudest / INT16_FULL_SCALE:.5f} of full scale)")


def silence(pause_ms: int, sample_rate_hz: int) -> npt.NDArray[np.int16]:
    """``pause_ms`` of zeros at ``sample_rate_hz``."""
    return np.zeros(pause_samples(pause_ms, sample_rate_hz), dtype=np.int16)
