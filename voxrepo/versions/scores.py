"""What the smoke test of a version measured, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.quality.comparison import compare
from voxrepo.quality.levels import Levels, measure_levels

QUALITY_KEY = "smoke"
"""Key of ``quality`` in ``stage.yaml``."""

LEVEL_WARNING_DB = 3.0
DURATION_WARNING = 0.1
SPEED_WARNING = 1.5
CLIPPED_WARNING = 1e-3
"""From these on a person should look: a difference in level that listeners notice at once, a tenth longer or shorter,
half as slow again, and one sample in a thousand at full scale. They refuse nothing; the gates of a rollout do."""


@dataclass(frozen=True)
class Utterance:
    """What a version said.

    Attributes:
        text: that was asked for.
        audio: INT16 [N].
        sample_rate_hz: as answered.
        latency_s: of the call.
    """

    text: str
    audio: npt.NDArray[np.int16]
    sample_rate_hz: int
    latency_s: float


@dataclass
class Scores:
    """Scores by metric; those of the current version beside those of the new one.

    Attributes:
        texts: number of texts said.
        metrics: of the new version.
        current: of the current one, where it could say the texts.
        warnings: sentences.
    """

    texts: int
    metrics: dict[str, float]
    current: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def table(self) -> dict[str, Any]:
        """Plain values for ``stage.yaml``."""
        values: dict[str, Any] = {"texts": self.texts, "metrics": self.metrics}
        if self.current:
            values["current"] = self.current
        if self.warnings:
            values["warnings"] = self.warnings
        return values


def score(new: Sequence[Utterance], current: Sequence[Utterance]) -> Scores:
    """Measure what both said.

    Args:
        new: one utterance or more.
        current: of the same texts in the same order, or empty.
    """
    new_levels = [measure_levels(said.audio, said.sample_rate_hz) for said in new]
    metrics = _alone(new, new_levels)
    if not current:
        return Scores(len(new), metrics)
    current_levels = [measure_levels(said.audio, said.sample_rate_hz) for said in current]
    pairs = [
        compare(one.audio, other.audio, one.sample_rate_hz, levels)
        for one, other, *levels_ in zip(new, current, new_levels, current_levels, strict=True)
        for levels in [(levels_[0], levels_[1])]
    ]
    total = sum(levels.duration_s for levels in current_levels)
    metrics |= {
        "duration_ratio": _rounded(sum(levels.duration_s for levels in new_levels) / total) if total else 0.0,
        "level_difference_db": _rounded(fmean(pair.level_difference_db for pair in pairs)),
    }
    distances = [pair.mel_cepstral_distance_db for pair in pairs if pair.mel_cepstral_distance_db is not None]
    if distances:
        metrics["mel_cepstral_distance_db"] = _rounded(fmean(distances))
    scores = Scores(len(new), metrics, _alone(current, current_levels))
    scores.warnings += warnings_of(metrics, scores.current)
    return scores


def warnings_of(metrics: dict[str, float], current: dict[str, float]) -> list[str]:
    """What a person should look at."""
    found = []
    level, ratio = metrics["level_difference_db"], metrics["duration_ratio"]
    if abs(level) > LEVEL_WARNING_DB:
        found.append(f"it is {abs(level):.1f} dB {'louder' if level > 0 else 'quieter'} than the current version")
    if abs(ratio - 1.0) > DURATION_WARNING:
        found.append(f"its audio takes {ratio:.2f} times as long as the current version's")
    slower = metrics["real_time_factor"] / current["real_time_factor"] if current["real_time_factor"] else 1.0
    if slower > SPEED_WARNING:
        found.append(f"it computes {slower:.1f} times as long as the current version")
    if metrics["clipped_ratio"] > max(CLIPPED_WARNING, current["clipped_ratio"]):
        found.append(f"{metrics['clipped_ratio']:.2%} of its samples are at full scale")
    return found


def _alone(said: Sequence[Utterance], levels: Sequence[Levels]) -> dict[str, float]:
    audio_s = sum(level.duration_s for level in levels)
    latency_s = sum(one.latency_s for one in said)
    return {
        "latency_p50_ms": _rounded(1000 * median(one.latency_s for one in said)),
        "real_time_factor": _rounded(latency_s / audio_s) if audio_s else 0.0,
        "level_dbfs": _rounded(fmean(level.level_dbfs for level in levels)),
        "peak_dbfs": _rounded(max(level.peak_dbfs for level in levels)),
        "clipped_ratio": _rounded(fmean(level.clipped_ratio for level in levels)),
        "silence_ratio": _rounded(fmean(level.silence_ratio for level in levels)),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
