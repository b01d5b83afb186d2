"""Estimates with confidence intervals, from plain samples. Pure; no clock, no random state that is not fixed.

An interval that cannot be given, because the samples are too few, is infinite at that end: it excludes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

NOTHING: Values = np.empty(0, dtype=np.float64)
RESAMPLES = 4000
"""Of the bootstrap: the ends of a 95 % interval are then known to about 0.3 percentage points of probability."""
SEED = 20210604
"""Any fixed number: the same observations must give the same verdict on every controller and after a restart."""


@dataclass(frozen=True)
class Estimate:
    """A value and the interval that covers the true one with the asked confidence, both in the metric's unit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Numbers of a sample, for reports."""

    count: int
    mean: float
    deviation: float
    p50: float
    p95: float
    p99: float
    least: float
    greatest: float


def finite(values: Values) -> Values:
    """The values that are numbers: a measure that could not be taken of an audio is NaN there."""
    kept: Values = values[np.isfinite(values)]
    return kept


def summarise(values: Values) -> Summary | None:
    """Count, mean, standard deviation and quantiles; None of an empty sample."""
    kept = np.sort(finite(values))
    count = len(kept)
    if not count:
        return None
    return Summary(
        count=count,
        mean=float(kept.mean()),
        deviation=float(kept.std(ddof=1)) if count > 1 else 0.0,
        p50=_quantile_of_sorted(kept, 0.50),
        p95=_quantile_of_sorted(kept, 0.95),
        p99=_quantile_of_sorted(kept, 0.99),
        least=float(kept[0]),
        greatest=float(kept[-1]),
    )


def normal_quantile(confidence: float) -> float:
    """Standard deviations on either side of a normal mean that hold ``confidence`` of it (1.96 for 0.95)."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def student_quantile(confidence: float, freedom: float) -> float:
    """The same for Student's t with ``freedom`` degrees.

    Cornish-Fisher expansion in 1/freedom (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5); off by
    less than 0.1 % from 4 degrees up at 95 % confidence.
    """
    z = normal_quantile(confidence)
    g1 = (z**3 + z) / 4
    g2 = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    g3 = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    g4 = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3 + g4 / freedom**4


def share(hits: int, count: int, confidence: float) -> Estimate:
    """A share of ``count`` cases: Wilson's score interval (Wilson 1927; Brown, Cai and DasGupta 2001)."""
    if count == 0:
        return Estimate(math.nan, 0.0, 1.0)
    z = normal_quantile(confidence)
    observed = hits / count
    scale = 1 + z * z / count
    centre = (observed + z * z / (2 * count)) / scale
    half = z / scale * math.sqrt(observed * (1 - observed) / count + z * z / (4 * count * count))
    # exact at the ends, where rounding would leave 1e-17
    low = 0.0 if hits == 0 else max(0.0, centre - half)
    high = 1.0 if hits == count else min(1.0, centre + half)
    return Estimate(observed, low, high)


def share_difference(hits: int, count: int, base_hits: int, base_count: int, confidence: float) -> Estimate:
    """Difference of two shares: Newcombe's hybrid score interval (Newcombe 1998, method 10)."""
    one, base = share(hits, count, confidence), share(base_hits, base_count, confidence)
    if count == 0 or base_count == 0:
        return Estimate(math.nan, -1.0, 1.0)
    difference = one.value - base.value
    low = difference - math.hypot(one.value - one.low, base.high - base.value)
    high = difference + math.hypot(one.high - one.value, base.value - base.low)
    return Estimate(difference, low, high)


def mean(values: Values, confidence: float) -> Estimate:
    """Mean with Student's interval; infinite below two values."""
    kept = finite(values)
    count = len(kept)
    if count == 0:
        return Estimate(math.nan, -math.inf, math.inf)
    value = float(kept.mean())
    if count == 1:
        return Estimate(value, -math.inf, math.inf)
    half = student_quantile(confidence, count - 1) * float(kept.std(ddof=1)) / math.sqrt(count)
    return Estimate(value, value - half, value + half)


def mean_difference(values: Values, base: Values, confidence: float) -> Estimate:
    """Difference of two means of unequal variance: Welch's interval (Welch 1947)."""
    one, other = finite(values), finite(base)
    if len(one) < 2 or len(other) < 2:
        known = len(one) and len(other)
        return Estimate(float(one.mean() - other.mean()) if known else math.nan, -math.inf, math.inf)
    difference = float(one.mean() - other.mean())
    parts = float(one.var(ddof=1)) / len(one), float(other.var(ddof=1)) / len(other)
    variance = sum(parts)
    if variance == 0.0:
        return Estimate(difference, difference, difference)
    freedom = variance**2 / (parts[0] ** 2 / (len(one) - 1) + parts[1] ** 2 / (len(other) - 1))
    half = student_quantile(confidence, freedom) * math.sqrt(variance)
    return Estimate(difference, difference - half, difference + half)


def _quantile_of_sorted(ordered: Values, probability: float) -> float:
    """The least value that at least that share of the sample does not exceed."""
    return float(ordered[max(math.ceil(probability * len(ordered) - 1e-9) - 1, 0)])


@lru_cache(maxsize=256)
def _quantile_ranks(count: int, probability: float, confidence: float) -> tuple[int, int]:
    """Ranks (1-based) of the order statistics that bound a quantile; 0 or ``count + 1`` where none does.

    The number of values below the quantile is binomial (Hahn and Meeker, Statistical Intervals, 5.2), computed exactly.
    """
    tail = (1 - confidence) / 2
    below = np.arange(count + 1, dtype=np.float64)
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1, dtype=np.float64)))))
    log_mass = (
        factorials[count]
        - factorials
        - factorials[::-1]
        + below * math.log(probability)
        + (count - below) * math.log1p(-probability)
    )
    cumulated = np.cumsum(np.exp(log_mass))  # [k] is the chance of at most k values below
    # low rank l: P(fewer than l below) <= tail; high rank u: P(at least u below) <= tail
    low = int(np.searchsorted(cumulated, tail, side="right"))
    high = int(np.searchsorted(cumulated, 1 - tail, side="left")) + 1
    return low, min(high, count + 1)


def quantile(values: Values, probability: float, confidence: float) -> Estimate:
    """A quantile, bounded by order statistics: right for any distribution.

    Raises:
        ValueError: ``probability`` is not inside (0, 1).
    """
    if not 0 < probability < 1:
        raise ValueError(f"probability {probability:g} is not between 0 and 1")
    ordered = np.sort(finite(values))
    count = len(ordered)
    if count == 0:
        return Estimate(math.nan, -math.inf, math.inf)
    low, high = _quantile_ranks(count, probability, confidence)
    return Estimate(
        _quantile_of_sorted(ordered, probability),
        float(ordered[low - 1]) if low >= 1 else -math.inf,
        float(ordered[high - 1]) if high <= count else math.inf,
    )


def _resampled_quantile(ordered: Values, probability: float, generator: np.random.Generator) -> Values:
    """Quantiles of :data:`RESAMPLES` bootstrap samples, without drawing the samples.

    A bootstrap sample's k-th order statistic is the sample's value at the k-th order statistic of n uniform numbers,
    which is distributed as Beta(k, n + 1 - k). That needs as many draws as there are resamples, not n times as many.
    """
    count = len(ordered)
    rank = max(math.ceil(probability * count - 1e-9), 1)
    places = generator.beta(rank, count + 1 - rank, RESAMPLES)
    indices = np.minimum((places * count).astype(np.int64), count - 1)
    chosen: Values = ordered[indices]
    return chosen


def _compared_quantiles(
    values: Values, base: Values, probability: float, confidence: float, *, as_ratio: bool
) -> Estimate:
    one, other = np.sort(finite(values)), np.sort(finite(base))
    unknown = Estimate(math.nan, 0.0 if as_ratio else -math.inf, math.inf)
    if not len(one) or not len(other):
        return unknown
    here, there = _quantile_of_sorted(one, probability), _quantile_of_sorted(other, probability)
    if as_ratio and there <= 0:
        return unknown
    generator = np.random.default_rng(SEED)
    first = _resampled_quantile(one, probability, generator)
    second = _resampled_quantile(other, probability, generator)
    with np.errstate(divide="ignore", invalid="ignore"):
        compared = first / second if as_ratio else first - second
    tail = (1 - confidence) / 2
    low, high = (float(end) for end in np.quantile(compared, (tail, 1 - tail)))
    # A resample never exceeds the largest value seen: where the order statistics give no bound, neither does it.
    own = _quantile_ranks(len(one), probability, confidence)
    its = _quantile_ranks(len(other), probability, confidence)
    if own[1] > len(one) or its[0] < 1:
        high = math.inf
    if own[0] < 1 or its[1] > len(other):
        low = unknown.low
    return Estimate(here / there if as_ratio else here - there, low, high)


def quantile_ratio(values: Values, base: Values, probability: float, confidence: float) -> Estimate:
    """Ratio of two quantiles of positive values: percentile bootstrap (Efron and Tibshirani 1993, 13.3), fixed seed."""
    return _compared_quantiles(values, base, probability, confidence, as_ratio=True)


def quantile_difference(values: Values, base: Values, probability: float, confidence: float) -> Estimate:
    """Difference of two quantiles, by the same bootstrap."""
    return _compared_quantiles(values, base, probability, confidence, as_ratio=False)
