"""Whether a version may take another one's place, from what was measured. Pure: equal numbers, equal verdicts.

A gate fails if the number lies beyond its limit, and is inconclusive if the number is missing: it never passes on what
was not measured. The defaults are those at which conversions to fp16 pass and conversions to int8 that are heard do
not (docs/quality.md has the measurements).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from voxrepo.quality.metric import METRICS
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.yamlfile import StrictModel

Difference = Literal["vocoder", "acoustic", "text_frontend"]
"""The first stage in a request's way of which the versions differ."""
Rule = Literal["at_most", "at_least", "within"]
Outcome = Literal["pass", "fail", "inconclusive"]
Verdict = Literal["accepted", "refused", "inconclusive"]


class QualityGate(StrictModel):
    """A limit for a metric.

    Attributes:
        metric: by name.
        rule: ``within``: no further from the metric's aim than ``limit``, to either side.
        limit: in the metric's unit.
    """

    metric: str
    rule: Rule
    limit: float

    @property
    def words(self) -> str:
        """The limit in words."""
        unit = METRICS[self.metric].unit
        number = f"{self.limit:g} {unit}" if unit else f"{self.limit:g}"
        if self.rule == "within":
            aim = METRICS[self.metric].aim or 0.0
            return f"{aim:g} ± {number}" if aim else f"± {number}"
        return f"{self.rule.replace('_', ' ')} {number}"

    def holds(self, value: float) -> bool:
        """Whether a value is good enough; what is not a number is not."""
        if self.rule == "at_most":
            return value <= self.limit
        if self.rule == "at_least":
            return value >= self.limit
        return abs(value - (METRICS[self.metric].aim or 0.0)) <= self.limit


class GateResult(StrictModel):
    """What a gate says.

    Attributes:
        metric: by name.
        outcome: the answer.
        value: that was measured; None if it was not.
        limit: in words.
        reason: a sentence with both numbers.
    """

    metric: str
    outcome: Outcome
    value: float | None
    limit: str
    reason: str


FIXED_GATES = (
    QualityGate(metric="fixed_mcd_db", rule="at_most", limit=0.5),
    QualityGate(metric="fixed_pesq", rule="at_least", limit=4.4),
)
FREE_GATES = (
    QualityGate(metric="duration_ratio", rule="within", limit=0.03),
    QualityGate(metric="worst_duration_ratio", rule="within", limit=0.25),
    QualityGate(metric="level_difference_db", rule="within", limit=1.5),
    QualityGate(metric="pitch_difference_cents", rule="within", limit=70.0),
    QualityGate(metric="voiced_difference", rule="within", limit=0.06),
    QualityGate(metric="clipped_difference", rule="at_most", limit=1e-3),
    QualityGate(metric="silence_difference", rule="within", limit=0.06),
    QualityGate(metric="p808_drop", rule="at_most", limit=0.15),
)
HEARD_GATES = (QualityGate(metric="error_rate_rise", rule="at_most", limit=0.15),)
"""Only if the recogniser listened: a guard that it is speech at all, no measure of quality. Against the reference,
since numbers and names count as errors where the recogniser writes them otherwise."""

OFF = "off"


def default_gates(difference: Difference, *, heard: bool) -> tuple[QualityGate, ...]:
    """The gates for two versions.

    Vocoders that get the same features must make the same samples, near enough: all gates. Two acoustic versions may
    put phonemes elsewhere and are as right as each other, and so may front ends read otherwise: free-running only.

    Args:
        difference: of the versions.
        heard: whether a recogniser listened.
    """
    gates = (*FIXED_GATES, *FREE_GATES) if difference == "vocoder" else FREE_GATES
    return (*gates, *HEARD_GATES) if heard else gates


def with_changes(gates: Iterable[QualityGate], changes: Mapping[str, float | None]) -> tuple[QualityGate, ...]:
    """Gates with other limits, with more, or with fewer of them.

    Args:
        gates: to be changed.
        changes: limit by metric; None leaves the gate out.
    """
    found = {gate.metric: gate for gate in gates}
    for name, limit in changes.items():
        if limit is None:
            found.pop(name, None)
        else:
            found[name] = QualityGate(metric=name, rule=rule_of(name), limit=limit)
    return tuple(found.values())


def rule_of(name: str) -> Rule:
    """How a metric is held against a limit."""
    known = {gate.metric: gate.rule for gate in (*FIXED_GATES, *FREE_GATES, *HEARD_GATES)}
    if name in known:
        return known[name]
    metric = METRICS[name]
    if metric.aim is None:
        return "at_least"
    return "at_most" if name.startswith("fixed_") or name in _ONE_SIDED else "within"


_ONE_SIDED = frozenset({"moved_frames_ratio", "mcd_db", "error_rate"})


def parse_changes(texts: Iterable[str]) -> dict[str, float | None]:
    """Read ``name=limit`` and ``name=off``.

    Raises:
        InvalidArgument: one is something else, or given twice.
    """
    changes: dict[str, float | None] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in METRICS or not equals:
            raise InvalidArgument(
                f"{text!r}: write a gate as name=limit or name=off; the names are {', '.join(METRICS)}"
            )
        if name in changes:
            raise InvalidArgument(f"the gate {name!r} is given twice")
        if value == OFF:
            changes[name] = None
            continue
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if not math.isfinite(limit) or (rule_of(name) == "within" and limit < 0):
            raise InvalidArgument(f"{text!r}: the limit must be a number{_positive(name)}, or {OFF}")
        changes[name] = limit
    return changes


def _positive(name: str) -> str:
    return " from 0 up" if rule_of(name) == "within" else ""


def judge_gates(
    gates: Iterable[QualityGate], values: Mapping[str, float | None], missing: Mapping[str, str]
) -> tuple[GateResult, ...]:
    """Hold every value against its limit.

    Args:
        gates: that apply.
        values: by metric; None or none at all where nothing was measured.
        missing: why not, by metric.
    """
    return tuple(_result(gate, values.get(gate.metric), missing.get(gate.metric, "")) for gate in gates)


def _result(gate: QualityGate, value: float | None, why: str) -> GateResult:
    metric = METRICS[gate.metric]
    if value is None:
        reason = f"{metric.title} is not measured: {why or 'no text gave a value'}; limit: {gate.words}"
        return GateResult(metric=gate.metric, outcome="inconclusive", value=None, limit=gate.words, reason=reason)
    outcome: Outcome = "pass" if gate.holds(value) else "fail"
    shown = f"{value:.4g} {metric.unit}" if metric.unit else f"{value:.4g}"
    reason = f"{metric.title} is {shown}; limit: {gate.words}"
    finite = value if math.isfinite(value) else None
    return GateResult(metric=gate.metric, outcome=outcome, value=finite, limit=gate.words, reason=reason)


def verdict_of(results: Iterable[GateResult], faults: Iterable[str] = ()) -> Verdict:
    """The verdict: one fault or one failed gate refuses; what is not measured keeps from accepting.

    Args:
        results: of all gates.
        faults: texts that the candidate could not say.
    """
    outcomes = {result.outcome for result in results}
    if "fail" in outcomes or any(True for _ in faults):
        return "refused"
    return "inconclusive" if "inconclusive" in outcomes else "accepted"
