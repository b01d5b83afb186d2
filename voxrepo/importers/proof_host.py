"""What the host does between the graphs, for the proof.

Written here once more, on purpose: the proof does not share code with the backend that serves the stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def frames_per_id(durations: Array, length_scale: float, speed: float, max_frames: int) -> npt.NDArray[np.int64]:
    """Frames of each id: ``clip(ceil(durations * length_scale / speed), 1, max_frames)``."""
    scaled = np.ceil(durations * np.float32(length_scale / speed))
    frames: npt.NDArray[np.int64] = np.clip(scaled, 1, max_frames).astype(np.int64)
    return frames


def nearest_frames_per_id(
    durations: Array, length_scale: float, speed: float, max_frames: int
) -> npt.NDArray[np.int64]:
    """Frames of each id: ``clip(round(durations * length_scale / speed), 0, max_frames)``, halves to even."""
    scaled = np.rint(durations * np.float32(length_scale / speed))
    frames: npt.NDArray[np.int64] = np.clip(scaled, 0, max_frames).astype(np.int64)
    return frames


def regulate(mean: Array, log_scale: Array, frames: Array, noise: Array, noise_scale: float) -> Array:
    """Expand the prior to frames and sample it.

    Args:
        mean: FP32 [C, ids].
        log_scale: FP32 [C, ids].
        frames: INT64 [ids].
        noise: FP32 [C, sum of frames].
        noise_scale: factor on the noise.

    Returns:
        FP32 [C, sum of frames].
    """
    expanded = np.repeat(mean, frames, axis=1)
    deviation = np.exp(np.repeat(log_scale, frames, axis=1))
    return np.asarray(expanded + noise * deviation * np.float32(noise_scale), dtype=np.float32)


@dataclass(frozen=True)
class Window:
    """Frames [start, stop) are computed, [keep_from, keep_to) are kept."""

    start: int
    stop: int
    keep_from: int
    keep_to: int


def windows(frames: int, window: int, overlap: int) -> Iterator[Window]:
    """Windows that cover ``frames``, the last one aligned to the end; one window if all fit into it."""
    if frames <= window:
        yield Window(0, frames, 0, frames)
        return
    kept = start = 0
    while start + window < frames:
        yield Window(start, start + window, kept, start + window - overlap)
        kept = start + window - overlap
        start += window - 2 * overlap
    yield Window(frames - window, frames, kept, frames)
