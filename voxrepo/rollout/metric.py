"""What a gate can be set on: each metric's source, statistic and the sense in which it is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["requests", "streams", "pairs"]
Statistic = Literal["share", "quantile", "mean"]


@dataclass(frozen=True)
class Metric:
    """One metric of an arm.

    Attributes:
        name: as specs and reports write it.
        source: what it is taken from: requests that an arm served, those among them that were streams, or pairs of
            audio of the judged arm and the stable arm for the same request.
        statistic: share of failed requests; a quantile over requests that succeeded; a mean over requests that
            succeeded or over pairs.
        better: the sense in which it is better; ``neither`` for one that shall only stay where it is.
        unit: after the number; empty for ratios.
        quantile: for that statistic, in (0, 1).
        of_stable_too: whether the stable arm has a value of its own to compare with. Metrics that are a comparison
            already (``duration_ratio`` and the like) have none.
    """

    name: str
    source: Source
    statistic: Statistic
    better: Literal["lower", "neither"]
    unit: str = ""
    quantile: float = 0.5
    of_stable_too: bool = True


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("error_ratio", "requests", "share", "lower"),
        Metric("latency_p50_ms", "requests", "quantile", "lower", "ms", 0.50),
        Metric("latency_p95_ms", "requests", "quantile", "lower", "ms", 0.95),
        Metric("latency_p99_ms", "requests", "quantile", "lower", "ms", 0.99),
        Metric("first_piece_p50_ms", "streams", "quantile", "lower", "ms", 0.50),
        Metric("first_piece_p95_ms", "streams", "quantile", "lower", "ms", 0.95),
        # median over requests of seconds of the request per second of its audio
        Metric("real_time_factor", "requests", "quantile", "lower", "", 0.50),
        # likewise of the seconds in the engine, waits in line left out
        Metric("engine_real_time_factor", "requests", "quantile", "lower", "", 0.50),
        Metric("level_dbfs", "requests", "mean", "neither", "dBFS"),
        Metric("clipped_ratio", "requests", "mean", "lower"),
        Metric("silence_ratio", "requests", "mean", "lower"),
        Metric("duration_ratio", "pairs", "mean", "neither", "", of_stable_too=False),
        Metric("level_difference_db", "pairs", "mean", "neither", "dB", of_stable_too=False),
        Metric("mel_cepstral_distance_db", "pairs", "mean", "lower", "dB", of_stable_too=False),
        # measured on both audios of a pair; the stable arm's own value is the measure "stable_<name>"
        Metric("word_error_rate", "pairs", "mean", "lower"),
        Metric("character_error_rate", "pairs", "mean", "lower"),
    )
}

STABLE_MEASURE_PREFIX = "stable_"
"""Before the name of a measure of a pair: the stable arm's own value."""
COUNTED_OUTCOMES = frozenset({"ok", "failed", "timed_out"})
"""Outcomes that say something about an arm; clients that left or asked wrongly, and refusals at the door, do not."""
FAILED_OUTCOMES = frozenset({"failed", "timed_out"})
