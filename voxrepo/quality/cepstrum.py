"""Mel-cepstral distance of two utterances of one text, aligned in time.

The distance of two frames is that of R. Kubichek, "Mel-cepstral distance measure for objective speech quality
assessment", IEEE PACRIM 1993: ``10 / ln 10 * sqrt(2 * sum_d (c_d - c'_d)^2)`` over the coefficients 1 to 13, so
without ``c_0``, the level. The coefficients are taken here of the logarithm of power in mel bands and divided by the
number of bands; then, by Parseval's theorem, the distance is the root mean square difference in dB of the two spectral
envelopes along the mel axis. Figures from tools that take cepstra otherwise (WORLD, SPTK) are not comparable.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from voxrepo.quality.levels import FULL_SCALE, active_power

Array = npt.NDArray[np.float32]

COEFFICIENTS = 13
MEL_BANDS = 40
FRAME_S = 0.025
HOP_S = 0.01
LOWEST_HZ = 60.0
MAX_SECONDS = 30.0
"""Longer utterances are compared by their beginnings: the alignment takes memory by the square."""
PAUSE_DB = -30.0
"""Power of a frame below the utterance's own level that makes it a pause, whatever that level is."""
FLOOR_DB = -60.0
"""Power of a band below the utterance's own level that counts as none: what nobody hears makes no difference."""
DISTANCE_FACTOR = 10.0 * math.sqrt(2.0) / math.log(10.0)


def mel_cepstral_distance_db(
    one: npt.NDArray[np.int16], other: npt.NDArray[np.int16], sample_rate_hz: int
) -> float | None:
    """Mean distance along the best alignment, in dB; pauses are left out. None if either has no speech.

    Args:
        one: INT16 [N].
        other: INT16 [M] of the same rate.
        sample_rate_hz: of both.
    """
    most = int(MAX_SECONDS * sample_rate_hz)
    cepstra = [mel_cepstra(audio.reshape(-1)[:most], sample_rate_hz) for audio in (one, other)]
    if not all(len(frames) for frames in cepstra):
        return None
    return aligned_mean(distances(cepstra[0], cepstra[1]))


def mel_cepstral_distance_unaligned_db(
    one: npt.NDArray[np.int16], other: npt.NDArray[np.int16], sample_rate_hz: int
) -> float | None:
    """Mean distance frame by frame, in dB, for utterances whose samples line up.

    Frames count in which either has speech, so that noise in the first one's pauses is found where it is loud enough
    to be heard. What is too quiet to count follows the level of the first.

    Args:
        one: INT16 [N], the reference.
        other: INT16 [N] of the same rate.
        sample_rate_hz: of both.

    Returns:
        None if ``one`` has no speech.

    Raises:
        ValueError: the lengths differ.
    """
    if one.size != other.size:
        raise ValueError(f"{one.size} and {other.size} samples do not line up")
    frames = [_frames(audio, sample_rate_hz) for audio in (one, other)]
    powers = [_powers(each) for each in frames]
    level = active_power(powers[0])
    if not level:
        return None
    spoken = np.maximum(powers[0], powers[1]) >= level * 10.0 ** (PAUSE_DB / 10.0)
    first, second = (_cepstra(each[spoken], level, sample_rate_hz) for each in frames)
    squares = np.square(first - second).sum(1)
    return float(np.mean(np.sqrt(squares)) * DISTANCE_FACTOR)


def mel_cepstra(audio: npt.NDArray[np.int16], sample_rate_hz: int) -> Array:
    """Coefficients 1 to 13 of the frames that are no pause: FP32 [frames, 13]."""
    frames = _frames(audio, sample_rate_hz)
    powers = _powers(frames)
    level = active_power(powers)
    if not level:
        return np.zeros((0, COEFFICIENTS), np.float32)
    return _cepstra(frames[powers >= level * 10.0 ** (PAUSE_DB / 10.0)], level, sample_rate_hz)


def _frames(audio: npt.NDArray[np.int16], sample_rate_hz: int) -> Array:
    """FP32 [frames, samples], full scale is 1; no frame of audio that is shorter than one."""
    frame = round(FRAME_S * sample_rate_hz)
    if audio.size < frame:
        return np.zeros((0, frame), np.float32)
    samples = audio.reshape(-1).astype(np.float32) / np.float32(FULL_SCALE)
    frames: Array = np.lib.stride_tricks.sliding_window_view(samples, frame)[:: round(HOP_S * sample_rate_hz)]
    return frames


def _powers(frames: Array) -> Array:
    powers: Array = np.einsum("ij,ij->i", frames, frames) / np.float32(frames.shape[1])
    return powers


def _cepstra(frames: Array, level: float, sample_rate_hz: int) -> Array:
    """FP32 [frames, 13] of frames of an utterance with this mean power."""
    frame = frames.shape[1]
    fft_size = 1 << (frame - 1).bit_length()
    window = np.hanning(frame).astype(np.float32)
    spectrum = np.fft.rfft(frames * window, fft_size, axis=1)
    # a sine at full scale has power 1 in its band
    power = (np.square(np.abs(spectrum)) * (2.0 / window.sum()) ** 2).astype(np.float32)
    bands = power @ _mel_filters(sample_rate_hz, fft_size)
    log_bands = np.log(np.maximum(bands, np.float32(level * 10.0 ** (FLOOR_DB / 10.0))))
    cepstra: Array = log_bands @ _cosines()
    return cepstra


@functools.lru_cache(maxsize=8)
def _mel_filters(sample_rate_hz: int, fft_size: int) -> Array:
    """Triangles of equal width in mel (2595 log10(1 + f / 700), O'Shaughnessy 1987): FP32 [bins, bands]."""
    edges_mel = np.linspace(_mel(LOWEST_HZ), _mel(sample_rate_hz / 2), MEL_BANDS + 2)
    edges_hz = 700.0 * (10.0 ** (edges_mel / 2595.0) - 1.0)
    bins_hz = np.arange(fft_size // 2 + 1)[:, None] * (sample_rate_hz / fft_size)
    low, middle, high = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    triangles = np.minimum((bins_hz - low) / (middle - low), (high - bins_hz) / (high - middle))
    return np.asarray(np.maximum(triangles, 0.0), dtype=np.float32)


def _mel(frequency_hz: float) -> float:
    return 2595.0 * math.log10(1.0 + frequency_hz / 700.0)


@functools.lru_cache(maxsize=1)
def _cosines() -> Array:
    """FP32 [bands, 13]: the discrete cosine transform, type 2, divided by the number of bands."""
    bands, orders = np.arange(MEL_BANDS)[:, None], np.arange(1, COEFFICIENTS + 1)
    return np.asarray(np.cos(np.pi * orders * (bands + 0.5) / MEL_BANDS) / MEL_BANDS, dtype=np.float32)


def distances(one: Array, other: Array) -> Array:
    """Distance of each frame of one to each of the other, in dB: FP32 [N, M]."""
    squares = np.square(one).sum(1)[:, None] + np.square(other).sum(1) - 2.0 * (one @ other.T)
    result: Array = np.sqrt(np.maximum(squares, 0.0, dtype=np.float32)) * np.float32(DISTANCE_FACTOR)
    return result


def aligned_mean(costs: Array) -> float:
    """Mean cost along the path of least total cost from corner to corner, by steps down, right or both.

    Dynamic time warping (Sakoe and Chiba 1978), all cells of an anti-diagonal at once: they depend on the two before.

    Args:
        costs: FP32 [N, M], both at least 1.
    """
    rows, columns = costs.shape
    flat = np.ascontiguousarray(costs).reshape(-1)
    # totals and lengths of the best paths to the cells of a diagonal, by row + 1; entry 0 is the border
    before = np.full(rows + 1, np.inf)
    last = np.full(rows + 1, np.inf)
    before_length, last_length = np.zeros(rows + 1), np.zeros(rows + 1)
    before[0] = 0.0  # the way into the first cell
    for diagonal in range(rows + columns - 1):
        low, high = max(0, diagonal - columns + 1), min(diagonal, rows - 1)
        here = slice(low + 1, high + 2)
        up = slice(low, high + 1)
        start = low * columns + diagonal - low
        step = max(1, columns - 1)
        cells = flat[start : start + (high - low) * step + 1 : step]
        best, length = before[up], before_length[up]
        for totals, lengths in ((last[up], last_length[up]), (last[here], last_length[here])):
            is_less = totals < best
            best, length = np.where(is_less, totals, best), np.where(is_less, lengths, length)
        now, now_length = np.full(rows + 1, np.inf), np.zeros(rows + 1)
        now[here], now_length[here] = best + cells, length + 1.0
        before, before_length, last, last_length = last, last_length, now, now_length
    return float(last[rows] / last_length[rows])
