from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrepo.quality.gates import (
    FIXED_GATES,
    FREE_GATES,
    GateResult,
    QualityGate,
    default_gates,
    judge_gates,
    parse_changes,
    rule_of,
    verdict_of,
    with_changes,
)
from voxrepo.quality.metric import METRICS
from voxrepo_contract.errors import InvalidArgument

GATES = default_gates("vocoder", heard=True)
RANK = {"accepted": 2, "inconclusive": 1, "refused": 0}
numbers = st.floats(-10, 10)
values = st.fixed_dictionaries({gate.metric: st.none() | numbers for gate in GATES})


def worse(gate: QualityGate, value: float, by: float) -> float:
    if gate.rule == "at_most":
        return value + by
    if gate.rule == "at_least":
        return value - by
    aim = METRICS[gate.metric].aim or 0.0
    return value + math.copysign(by, value - aim)


@given(values, st.sampled_from(GATES), st.floats(0, 10))
def test_worse_numbers_never_give_a_better_verdict(found: dict[str, float | None], gate: QualityGate, by: float):
    value = found[gate.metric]
    if value is None:
        return
    before = verdict_of(judge_gates(GATES, found, {}))
    after = verdict_of(judge_gates(GATES, {**found, gate.metric: worse(gate, value, by)}, {}))
    assert RANK[after] <= RANK[before]


@given(values, st.sampled_from(GATES))
def test_what_is_not_measured_is_never_accepted(found: dict[str, float | None], gate: QualityGate):
    assert verdict_of(judge_gates(GATES, {**found, gate.metric: None}, {})) != "accepted"


@given(values, st.sampled_from(GATES), st.floats(0, 5))
def test_a_looser_limit_never_refuses_what_a_tighter_one_accepts(
    found: dict[str, float | None], gate: QualityGate, by: float
):
    looser = gate.limit - by if gate.rule == "at_least" else gate.limit + by
    changed = with_changes(GATES, {gate.metric: looser})
    assert RANK[verdict_of(judge_gates(changed, found, {}))] >= RANK[verdict_of(judge_gates(GATES, found, {}))]


@given(values, st.permutations(GATES))
def test_the_order_of_gates_does_not_matter(found: dict[str, float | None], gates: list[QualityGate]):
    assert verdict_of(judge_gates(gates, found, {})) == verdict_of(judge_gates(GATES, found, {}))


@given(values)
def test_a_fault_always_refuses(found: dict[str, float | None]):
    assert verdict_of(judge_gates(GATES, found, {}), ["it is silent"]) == "refused"


def test_the_limits_are_those_of_the_reference():
    limits = {gate.metric: (gate.rule, gate.limit) for gate in GATES}
    assert limits["fixed_mcd_db"] == ("at_most", 0.5)
    assert limits["fixed_pesq"] == ("at_least", 4.4)
    assert limits["p808_drop"] == ("at_most", 0.15)


def test_fixed_gates_hold_for_vocoders_only():
    assert default_gates("vocoder", heard=False) == (*FIXED_GATES, *FREE_GATES)
    for difference in ("acoustic", "text_frontend"):
        assert default_gates(difference, heard=False) == FREE_GATES


def test_numbers_that_are_none_fail():
    results = judge_gates(GATES, {gate.metric: math.nan for gate in GATES}, {})
    assert {result.outcome for result in results} == {"fail"}
    assert all(result.value is None for result in results)


def test_the_sentence_has_both_numbers_and_the_unit():
    (result,) = judge_gates((QualityGate(metric="fixed_mcd_db", rule="at_most", limit=0.5),), {"fixed_mcd_db": 6.7}, {})
    assert result == GateResult(
        metric="fixed_mcd_db",
        outcome="fail",
        value=6.7,
        limit="at most 0.5 dB",
        reason="mel-cepstral distance, frame by frame is 6.7 dB; limit: at most 0.5 dB",
    )


def test_a_gate_can_be_changed_added_and_left_out():
    changes = parse_changes(["fixed_mcd_db=1.5", "fixed_pesq = off", "mcd_db=2", "fixed_snr_db=20"])
    gates = {gate.metric: gate for gate in with_changes(GATES, changes)}
    assert gates["fixed_mcd_db"].limit == 1.5
    assert "fixed_pesq" not in gates
    assert gates["mcd_db"] == QualityGate(metric="mcd_db", rule="at_most", limit=2.0)
    assert gates["fixed_snr_db"] == QualityGate(metric="fixed_snr_db", rule="at_least", limit=20.0)


def test_every_metric_can_be_a_gate():
    for name in METRICS:
        assert rule_of(name) in {"at_most", "at_least", "within"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mcd=1", "the names are fixed_snr_db, fixed_mcd_db"),
        ("fixed_mcd_db", "write a gate as name=limit or name=off"),
        ("fixed_mcd_db=much", "the limit must be a number, or off"),
        ("fixed_mcd_db=nan", "the limit must be a number, or off"),
        ("duration_ratio=-1", "the limit must be a number from 0 up, or off"),
    ],
)
def test_refuses_a_gate_that_is_none(text: str, reason: str):
    with pytest.raises(InvalidArgument, match=reason):
        parse_changes([text])


def test_refuses_a_gate_given_twice():
    with pytest.raises(InvalidArgument, match="'mcd_db' is given twice"):
        parse_changes(["mcd_db=1", "mcd_db=2"])
