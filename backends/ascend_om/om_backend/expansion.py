"""How the encoder's states become the decoder's frames; one class for each ``expansion`` of the options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from om_backend.length_regulator import FloatArray, frame_counts, nearest_frame_counts, sample_prior

Counts = npt.NDArray[np.int64]
Noise = Callable[[tuple[int, int]], FloatArray]
"""Makes standard normal noise of a shape."""


class Expansion(Protocol):
    """From durations and states of ids to frames.

    Attributes:
        states: outputs of the encoder that are expanded, each FP32 [batch, C, ids], with what to call them in errors.
        has_noise: whether requests may choose how much noise there is.
    """

    states: Mapping[str, str]
    has_noise: bool

    def counts(self, durations: FloatArray, scale: float, max_per_id: int, max_per_segment: int) -> Counts:
        """Whole frames of each id, INT64 [ids], with a sum of at least 1."""
        ...

    def expand(self, states: Mapping[str, FloatArray], counts: Counts, noise: Noise, noise_scale: float) -> FloatArray:
        """FP32 [C, frames] from states FP32 [C, ids]."""
        ...


class GaussianExpansion:
    """Frames drawn from a prior with a mean and a log scale for each id, as in VITS."""

    states: Mapping[str, str] = {"mean": "means", "log_scale": "log scales"}
    has_noise = True

    def counts(self, durations: FloatArray, scale: float, max_per_id: int, max_per_segment: int) -> Counts:
        """See :class:`Expansion`."""
        return frame_counts(durations, scale, max_per_id, max_per_segment)

    def expand(self, states: Mapping[str, FloatArray], counts: Counts, noise: Noise, noise_scale: float) -> FloatArray:
        """See :class:`Expansion`."""
        mean = states["mean"]
        drawn = noise((mean.shape[0], int(counts.sum())))
        return sample_prior(mean, states["log_scale"], counts, drawn, noise_scale)


class RepeatExpansion:
    """The hidden state of each id, repeated for its frames, as in FastSpeech 2."""

    states: Mapping[str, str] = {"hidden": "hidden states"}
    has_noise = False

    def counts(self, durations: FloatArray, scale: float, max_per_id: int, max_per_segment: int) -> Counts:
        """See :class:`Expansion`."""
        return nearest_frame_counts(durations, scale, max_per_id, max_per_segment)

    def expand(self, states: Mapping[str, FloatArray], counts: Counts, noise: Noise, noise_scale: float) -> FloatArray:
        """See :class:`Expansion`."""
        return np.repeat(states["hidden"], counts, axis=1)


EXPANSIONS: dict[str, type[GaussianExpansion] | type[RepeatExpansion]] = {
    "gaussian": GaussianExpansion,
    "repeat": RepeatExpansion,
}
