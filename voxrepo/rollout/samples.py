"""Observations of one arm as arrays, as the gates take them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from voxrepo.rollout.metric import COUNTED_OUTCOMES, FAILED_OUTCOMES, Metric
from voxrepo.rollout.plan import RequestSeen
from voxrepo.rollout.statistics import Values

Flags = npt.NDArray[np.bool_]

_OF_AUDIO = {"real_time_factor": "latency_s", "engine_real_time_factor": "engine_s"}
"""Metrics per second of audio, and of what."""


def _nothing() -> Values:
    return np.empty(0, dtype=np.float64)


@dataclass(frozen=True)
class ArmSamples:
    """Requests of one arm and its pairs, in any order.

    Attributes:
        failed: whether each request failed; bool [N].
        latency_s: seconds; float64 [N] like all that follow, NaN where not known.
        first_piece_s: of streams.
        audio_s: length of the audio.
        level_dbfs: RMS of the audio.
        clipped_ratio: samples at full scale.
        silence_ratio: silent frames.
        engine_s: seconds in the engine.
        pairs: measures of pairs by name, float64 [P], aligned with one another; NaN where not known.
    """

    failed: Flags = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    latency_s: Values = field(default_factory=_nothing)
    first_piece_s: Values = field(default_factory=_nothing)
    audio_s: Values = field(default_factory=_nothing)
    level_dbfs: Values = field(default_factory=_nothing)
    clipped_ratio: Values = field(default_factory=_nothing)
    silence_ratio: Values = field(default_factory=_nothing)
    engine_s: Values = field(default_factory=_nothing)
    pairs: Mapping[str, Values] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """How many there are, failed ones included."""
        return len(self.failed)

    @property
    def failures(self) -> int:
        """How many failed."""
        return int(np.count_nonzero(self.failed))

    @property
    def compared(self) -> int:
        """Pairs."""
        return max((len(values) for values in self.pairs.values()), default=0)

    def of(self, metric: Metric) -> Values:
        """What a quantile or mean of ``metric`` is taken over, in its unit: requests that succeeded, or pairs."""
        if metric.source == "pairs":
            return self.pairs.get(metric.name, _nothing())
        if metric.name in _OF_AUDIO:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = getattr(self, _OF_AUDIO[metric.name]) / self.audio_s
        elif metric.source == "streams":
            values = self.first_piece_s * 1000
        elif metric.name.startswith("latency_"):
            values = self.latency_s * 1000
        else:
            values = getattr(self, metric.name)
        kept: Values = values[~self.failed & np.isfinite(values)]
        return kept


def column(values: Iterable[float | None]) -> Values:
    """An array with NaN for what is not known."""
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def from_requests(seen: Iterable[RequestSeen], pairs: Iterable[Mapping[str, float]] = ()) -> ArmSamples:
    """Samples of requests that one arm served, without those that say nothing about it, and of its pairs."""
    kept = [request for request in seen if request.outcome in COUNTED_OUTCOMES]
    measured = list(pairs)
    names = sorted({name for measures in measured for name in measures})
    return ArmSamples(
        failed=np.array([request.outcome in FAILED_OUTCOMES for request in kept], dtype=np.bool_),
        latency_s=column(request.latency_s for request in kept),
        first_piece_s=column(request.first_piece_s for request in kept),
        audio_s=column(request.audio_s for request in kept),
        level_dbfs=column(request.level_dbfs for request in kept),
        clipped_ratio=column(request.clipped_ratio for request in kept),
        silence_ratio=column(request.silence_ratio for request in kept),
        engine_s=column(request.engine_s for request in kept),
        pairs={name: column(measures.get(name) for measures in measured) for name in names},
    )
