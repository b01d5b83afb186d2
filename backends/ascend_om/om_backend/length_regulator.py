"""The length regulator, on the host: phoneme durations to frames. Pure functions.

It stands between the encoder and decoder graphs because its output length depends on data, which a graph with
static shapes cannot express.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

FLOAT_SAFE_FRAMES = 1e9


def frame_counts(
    durations: FloatArray, scale: float, max_frames_per_id: int, max_frames_per_segment: int
) -> npt.NDArray[np.int64]:
    """Whole frames for each id: ``ceil(duration * scale)``, as in VITS (Kim et al. 2021, inference), clamped.

    The stochastic duration predictor has no upper bound (it was seen to ask for hundreds of thousands of frames);
    both clamps keep one odd id from taking the memory of the server.

    Args:
        durations: FP32 [T], frames before scaling.
        scale: length scale divided by speed.
        max_frames_per_id: upper bound of each count.
        max_frames_per_segment: upper bound of the sum; when exceeded, the longest ids are cut first.

    Returns:
        INT64 [T], each at least 1.
    """
    finite = np.nan_to_num(durations.astype(np.float64) * scale, nan=1.0, posinf=FLOAT_SAFE_FRAMES, neginf=1.0)
    counts = np.clip(np.ceil(finite), 1, max_frames_per_id).astype(np.int64)
    return _within(counts, max_frames_per_id, max_frames_per_segment)


def nearest_frame_counts(
    durations: FloatArray, scale: float, max_frames_per_id: int, max_frames_per_segment: int
) -> npt.NDArray[np.int64]:
    """Whole frames for each id: ``round(duration * scale)``, halves to even, as in TensorFlowTTS's FastSpeech 2.

    An id may get none, as marks of prosody often do; a segment of which no id gets one gives a frame to the longest.

    Args and returns as for :func:`frame_counts`, but each count is at least 0 and their sum at least 1.
    """
    scaled = durations * np.float32(scale)
    finite = np.nan_to_num(scaled, nan=0.0, posinf=FLOAT_SAFE_FRAMES, neginf=0.0)
    counts = np.clip(np.rint(finite), 0, max_frames_per_id).astype(np.int64)
    if not counts.any():
        counts[int(np.argmax(finite))] = 1
    return _within(counts, max_frames_per_id, max_frames_per_segment)


def _within(counts: npt.NDArray[np.int64], max_frames_per_id: int, max_frames: int) -> npt.NDArray[np.int64]:
    """Counts of which the longest are cut until their sum is at most ``max_frames``; who has a frame keeps one."""
    if counts.sum() <= max_frames:
        return counts
    low, high = 1, max_frames_per_id
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(counts, middle).sum() <= max_frames:
            low = middle
        else:
            high = middle - 1
    return np.minimum(counts, low)


def sample_prior(
    mean: FloatArray,
    log_scale: FloatArray,
    counts: npt.NDArray[np.int64],
    noise: FloatArray,
    noise_scale: float,
) -> FloatArray:
    """Latent frames drawn from the prior, each id repeated for its frames.

    ``z = mean + noise * exp(log_scale) * noise_scale`` (VITS, Kim et al. 2021, section 2.1.3).

    Args:
        mean: FP32 [C, T].
        log_scale: FP32 [C, T], logarithm of the standard deviation.
        counts: INT64 [T] with sum F.
        noise: FP32 [C, F], standard normal.
        noise_scale: factor on the standard deviation.

    Returns:
        FP32 [C, F].
    """
    spread = np.exp(log_scale) * np.float32(noise_scale)
    latent = np.repeat(mean, counts, axis=1)
    latent += noise * np.repeat(spread, counts, axis=1)
    return latent
