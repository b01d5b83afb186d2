"""Another sample rate, for models that know only one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PAD_S = 0.05
"""Zeros at both ends, into which the filter's ringing falls instead of round to the other end."""


def resampled(audio: npt.NDArray[np.int16], from_hz: int, to_hz: int) -> npt.NDArray[np.float32]:
    """Samples at another rate, full scale is 1: FP32 [round(N * to_hz / from_hz)].

    The whole utterance is transformed, its spectrum cut or filled up with zeros, and transformed back: nothing above
    half the lower rate is left, and nothing below is changed.

    Args:
        audio: INT16 [N].
        from_hz: its rate.
        to_hz: the rate wanted.
    """
    samples = audio.reshape(-1).astype(np.float64) / 32768.0
    if from_hz == to_hz or not samples.size:
        return samples.astype(np.float32)
    divisor = int(np.gcd(from_hz, to_hz))
    up, down = to_hz // divisor, from_hz // divisor
    # a length that is a multiple of `down` has a whole number of samples at the other rate
    pad = down * -(-round(PAD_S * from_hz) // down)
    length = down * -(-(samples.size + 2 * pad) // down)
    padded = np.zeros(length)
    padded[pad : pad + samples.size] = samples
    wanted = length // down * up
    spectrum = np.fft.rfft(padded)[: wanted // 2 + 1]
    moved = np.fft.irfft(spectrum, wanted) * (wanted / length)
    start = pad // down * up
    return moved[start : start + round(samples.size * to_hz / from_hz)].astype(np.float32)
