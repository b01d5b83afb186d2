"""From observations to verdicts. Pure: the same samples give the same verdicts everywhere.

A gate fails only if the confidence interval lies beyond the limit, and passes only if it lies within; anything else,
too little traffic above all, is inconclusive and neither promotes nor takes back.

Verdicts are asked for again and again while samples come in, which makes a false alarm likelier than one look would.
It needs an interval that lies wholly beyond the limit, though, and the default limits are set well away from the values
of an arm as good as the stable one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from voxrepo.rollout import statistics
from voxrepo.rollout.finite import FiniteModel
from voxrepo.rollout.gate import Gate
from voxrepo.rollout.metric import METRICS, STABLE_MEASURE_PREFIX, Metric
from voxrepo.rollout.route import STABLE_ARM
from voxrepo.rollout.samples import ArmSamples
from voxrepo.rollout.spec import AbPolicy, RolloutSpec, arms_of
from voxrepo.rollout.statistics import Estimate

CERTAIN_ERRORS = 3
"""Errors that fail ``error_ratio`` before ``min_samples``, if the interval lies beyond the limit: one or two may be
chance meetings with something else, such as a server that stops."""

VerdictName = Literal["pass", "fail", "inconclusive"]


class GateVerdict(FiniteModel):
    """What a gate says of an arm now.

    Attributes:
        arm: that is judged.
        metric: by name.
        verdict: the answer.
        value: what is held against the limit: the value, its ratio to the stable arm's or the difference; None if there
            is none yet.
        low: of its interval; None if unbounded.
        high: of its interval; None if unbounded.
        samples: of the arm.
        own_value: the arm's value in the metric's unit.
        stable_value: the stable arm's, where compared.
        limit: in words.
        dry_run: whether it is only reported.
        reason: a sentence.
    """

    arm: str
    metric: str
    verdict: VerdictName
    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    own_value: float | None = None
    stable_value: float | None = None
    limit: str = ""
    dry_run: bool = False
    reason: str = ""


class Judgement(FiniteModel):
    """All that the observations since a moment say.

    Attributes:
        since: seconds since the epoch; older observations are left out.
        verdicts: of every gate on every arm.
        requests: of each arm, stable included: those that say something about it.
        pairs: compared pairs of each arm.
        winner: of an A/B test with a metric: the best arm that is better than the stable one beyond chance; ``stable``
            if none is; empty if not asked for.
        winner_reason: a sentence.
    """

    since: float
    verdicts: list[GateVerdict] = Field(default_factory=list)
    requests: dict[str, int] = Field(default_factory=dict)
    pairs: dict[str, int] = Field(default_factory=dict)
    winner: str = ""
    winner_reason: str = ""

    def failed(self) -> list[GateVerdict]:
        """Gates that call for taking the arms back."""
        return [each for each in self.verdicts if each.verdict == "fail" and not each.dry_run]

    def open(self) -> list[GateVerdict]:
        """Gates that do not allow to go on yet."""
        return [each for each in self.verdicts if each.verdict != "pass" and not each.dry_run]


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def estimate_of(metric: Metric, samples: ArmSamples, confidence: float) -> tuple[Estimate, int]:
    """An arm's own value of a metric with its interval, and the number of samples it is taken from."""
    if metric.statistic == "share":
        return statistics.share(samples.failures, samples.requests, confidence), samples.requests
    values = statistics.finite(samples.of(metric))
    if metric.statistic == "quantile":
        return statistics.quantile(values, metric.quantile, confidence), len(values)
    return statistics.mean(values, confidence), len(values)


def _absolute(gate: Gate, samples: ArmSamples) -> tuple[Estimate, int]:
    return estimate_of(gate.of, samples, gate.confidence)


def _relative(gate: Gate, samples: ArmSamples, stable: ArmSamples) -> tuple[Estimate, int]:
    """The comparison and the number of samples on the side that has fewer."""
    metric = gate.of
    if metric.source == "pairs":  # both values of the same request: their differences vary far less than either
        measures = samples.pairs
        own, base = measures.get(metric.name), measures.get(STABLE_MEASURE_PREFIX + metric.name)
        if own is None or base is None:
            return Estimate(math.nan, -math.inf, math.inf), 0
        differences = statistics.finite(own - base)
        return statistics.mean(differences, gate.confidence), len(differences)
    if metric.statistic == "share":
        estimate = statistics.share_difference(
            samples.failures, samples.requests, stable.failures, stable.requests, gate.confidence
        )
        return estimate, min(samples.requests, stable.requests)
    values, base = samples.of(metric), stable.of(metric)
    if gate.max_ratio is not None:
        estimate = statistics.quantile_ratio(values, base, metric.quantile, gate.confidence)
    elif metric.statistic == "quantile":
        estimate = statistics.quantile_difference(values, base, metric.quantile, gate.confidence)
    else:
        estimate = statistics.mean_difference(values, base, gate.confidence)
    return estimate, min(len(values), len(base))


def _stable_value(gate: Gate, samples: ArmSamples, stable: ArmSamples) -> float | None:
    metric = gate.of
    if not metric.of_stable_too:
        return None
    if metric.source == "pairs":
        values = statistics.finite(samples.pairs.get(STABLE_MEASURE_PREFIX + metric.name, statistics.NOTHING))
        return float(values.mean()) if len(values) else None
    return _known(_absolute(gate, stable)[0].value)


def _verdict(gate: Gate, estimate: Estimate, samples: int, failures: int) -> VerdictName:
    low, high = gate.bounds
    beyond = (high is not None and estimate.low > high) or (low is not None and estimate.high < low)
    certain = gate.metric == "error_ratio" and failures >= CERTAIN_ERRORS
    if samples < gate.min_samples:
        return "fail" if beyond and certain else "inconclusive"
    if beyond:
        return "fail"
    within = (high is None or estimate.high <= high) and (low is None or estimate.low >= low)
    return "pass" if within else "inconclusive"


def _number(value: float | None, gate: Gate) -> str:
    if value is None:
        return "unknown"
    shown = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{shown} {gate.of.unit}" if gate.of.unit else shown


def _reason(gate: Gate, arm: str, verdict: VerdictName, found: GateVerdict) -> str:
    kind = gate.of.source
    if found.value is None:
        return f"{gate.metric} of {arm}: no {kind} to judge by yet"
    own = _number(found.own_value, gate)
    if gate.max_ratio is not None:
        what = f"{own}, {found.value:.3g} times stable's {_number(found.stable_value, gate)}"
    elif gate.max_difference is not None:
        what = f"{own}, {found.value:+.3g} against stable's {_number(found.stable_value, gate)}"
    else:
        what = own
    low = "-inf" if found.low is None else f"{found.low:.3g}"
    high = "inf" if found.high is None else f"{found.high:.3g}"
    text = (
        f"{gate.metric} of {arm} is {what} ({gate.confidence * 100:g} % interval {low} to {high}, "
        f"{found.samples} {kind}); limit: {found.limit}"
    )
    if verdict == "inconclusive":
        text += (
            f"; {gate.min_samples} {kind} are needed"
            if found.samples < gate.min_samples
            else "; more are needed to tell on which side of it it lies"
        )
    return text


def judge_gate(gate: Gate, arm: str, samples: ArmSamples, stable: ArmSamples) -> GateVerdict:
    """Judge one gate on one arm."""
    estimate, count = _relative(gate, samples, stable) if gate.compares else _absolute(gate, samples)
    own = _absolute(gate, samples)[0].value if gate.compares else estimate.value
    verdict = _verdict(gate, estimate, count, samples.failures)
    found = GateVerdict(
        arm=arm,
        metric=gate.metric,
        verdict=verdict,
        value=_known(estimate.value),
        low=_known(estimate.low),
        high=_known(estimate.high),
        samples=count,
        own_value=_known(own),
        stable_value=_stable_value(gate, samples, stable) if gate.compares else None,
        limit=gate.limit,
        dry_run=gate.dry_run,
    )
    return found.model_copy(update={"reason": _reason(gate, arm, verdict, found)})


def _find_winner(policy: AbPolicy, samples: Mapping[str, ArmSamples], stable: ArmSamples) -> tuple[str, str]:
    """The arm of least value among those whose difference from stable is below nought beyond chance."""
    # with several arms each has a chance to seem better: their errors are shared among them (Bonferroni)
    arms = arms_of(policy)
    metric = METRICS[policy.winner]
    gate = Gate(metric=policy.winner, max_difference=0.0, confidence=1 - 0.05 / len(arms))
    best, found = STABLE_ARM, ""
    best_value = 0.0
    for arm in arms:
        estimate, count = _relative(gate, samples.get(arm, ArmSamples()), stable)
        if count and estimate.high < 0 and estimate.value < best_value:
            best, best_value = arm, estimate.value
            unit = f" {metric.unit}" if metric.unit else ""
            found = (
                f"{policy.winner} of {arm} is {-estimate.value:.3g}{unit} better than stable's "
                f"(interval {-estimate.high:.3g} to {-estimate.low:.3g}, {count} samples)"
            )
    return best, found or f"no arm is better than stable in {policy.winner} beyond chance"


def judge(spec: RolloutSpec, samples: Mapping[str, ArmSamples], since: float) -> Judgement:
    """Judge all arms.

    Args:
        spec: of the rollout.
        samples: by arm, ``stable`` among them; for a shadow arm its copies. An arm without samples may be missing.
        since: moment since which they were taken.
    """
    stable = samples.get(STABLE_ARM, ArmSamples())
    arms = arms_of(spec.policy)
    verdicts = [
        judge_gate(gate, arm, samples.get(arm, ArmSamples()), stable) for arm in arms for gate in spec.judged_gates
    ]
    winner, winner_reason = "", ""
    if isinstance(spec.policy, AbPolicy) and spec.policy.winner != "manual":
        winner, winner_reason = _find_winner(spec.policy, samples, stable)
    every = [STABLE_ARM, *arms]
    return Judgement(
        since=since,
        verdicts=verdicts,
        requests={arm: samples.get(arm, ArmSamples()).requests for arm in every},
        pairs={arm: samples.get(arm, ArmSamples()).compared for arm in arms},
        winner=winner,
        winner_reason=winner_reason,
    )
