from __future__ import annotations

import pytest
from pydantic import ValidationError

from voxrepo.rollout.check import check_spec
from voxrepo.rollout.metric import METRICS
from voxrepo.rollout.route import Overflow, Route
from voxrepo.rollout.spec import CanaryPolicy, parse_spec, read_spec
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import ConfigError

HEAD = "voice: en-joe\narms:\n  int8: {vocoder: 2}\n"
VOICES = {"en-joe": {"text_frontend": 1, "acoustic": 1, "vocoder": 1}}
VERSIONS = {"text_frontend": [1], "acoustic": [1, 2], "vocoder": [1, 2, 3]}


def test_a_short_spec_has_steps_and_gates(tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text(HEAD + "policy: {kind: canary, arm: int8}\n")
    spec = read_spec(file)
    assert isinstance(spec.policy, CanaryPolicy)
    assert [step.weight for step in spec.policy.steps] == [5.0, 25.0, 50.0]
    assert spec.keep_previous_s == 600
    assert {"error_ratio", "latency_p95_ms", "level_difference_db"} <= {gate.metric for gate in spec.judged_gates}
    assert all(METRICS[gate.metric].source in spec.sources for gate in spec.judged_gates)


POLICIES = [
    "policy: {kind: canary, arm: int8, steps: [{weight: 1, hold_s: 0, min_requests: 1}, {weight: 100}], then: wait}\n",
    "policy: {kind: ab, weights: {int8: 30, stable: 70}, winner: latency_p95_ms, duration_s: 60}\n",
    "policy: {kind: shadow, arm: int8, percent: 50, min_pairs: 10, then: promote}\n",
    "policy: {kind: overflow, arm: int8, above_wait_s: 2, below_wait_s: 0.5}\n",
    "policy: {kind: tiered, arm: int8}\n",
]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_read_and_survives_being_written(policy):
    spec = parse_spec(HEAD + policy)
    assert parse_spec(yamlfile.dump(spec)) == spec
    assert all(METRICS[gate.metric].source in spec.sources for gate in spec.judged_gates)
    check_spec(spec, VOICES, VERSIONS, {})


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (HEAD + "policy: {kind: blue, arm: int8}\n", 4, "policy"),
        (HEAD + "policy: {kind: canary, arm: int9}\n", 1, "'int9' is not among arms (int8)"),
        (HEAD + "policy:\n  kind: canary\n  arm: int8\n  step: []\n", 7, "unknown key"),
        (
            HEAD + "policy:\n  kind: canary\n  arm: int8\n  steps:\n  - weight: 20\n  - weight: 10\n",
            7,
            "10 follows 20",
        ),
        (HEAD + "policy:\n  kind: canary\n  arm: int8\n  steps:\n  - weight: 120\n", 8, "less than or equal to 100"),
        (HEAD + "policy: {kind: canary, arm: int8, steps: []}\n", 4, "steps"),
        (HEAD + "policy: {kind: ab, weights: {int8: 30, stable: 60}}\n", 4, "sum to 90 percent"),
        (HEAD + "policy: {kind: ab, weights: {int8: 100}}\n", 4, "leave nothing for the stable arm"),
        (HEAD + "policy: {kind: ab, weights: {int8: 10}, winner: beauty}\n", 4, "manual"),
        (HEAD + "policy: {kind: overflow, arm: int8, above_wait_s: 1, below_wait_s: 1}\n", 4, "must be less than"),
        (HEAD + "  other: {vocoder: 3}\npolicy: {kind: canary, arm: int8}\n", 1, "other: the policy 'canary'"),
        (HEAD + "  previous: {vocoder: 3}\npolicy: {kind: canary, arm: int8}\n", 2, "'previous' is reserved"),
        (HEAD + "  vocoder: {vocoder: 3}\npolicy: {kind: canary, arm: int8}\n", 2, "'vocoder' is reserved"),
        (HEAD + "  a.b: {vocoder: 3}\npolicy: {kind: canary, arm: int8}\n", 2, "no name of an arm"),
        (HEAD + "  b: {melody: 3}\npolicy: {kind: canary, arm: int8}\n", 2, "unknown stage 'melody'"),
        (HEAD + "  b: {vocoder: 0}\npolicy: {kind: canary, arm: int8}\n", 4, "greater than or equal to 1"),
        ("voice: en-joe\narms: {int8: {acoustic: 2}}\npolicy: {kind: tiered, arm: int8}\n", 1, "only the vocoder"),
        (HEAD + "policy: {kind: tiered, arm: int8}\nresource_preserving: true\n", 1, "only the policy 'canary'"),
        (HEAD + "policy: {kind: overflow, arm: int8, above_wait_s: 2, below_wait_s: 1}\npair_percent: 5\n", 1, "pairs"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, line, said):
    with pytest.raises(ConfigError) as found:
        parse_spec(text)
    assert said in str(found.value)
    assert found.value.line == line


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("{metric: beauty, max: 1}", "unknown metric"),
        ("{metric: error_ratio}", "give min and/or max"),
        ("{metric: error_ratio, max: 1, max_difference: 1}", "give min and/or max"),
        ("{metric: error_ratio, min: 1, max: 1}", "must be less than"),
        ("{metric: error_ratio, max_ratio: 2}", "for quantiles only"),
        ("{metric: duration_ratio, max_difference: 2}", "a comparison with the stable arm already"),
        ("{metric: error_ratio, max: .nan}", "finite"),
        ("{metric: error_ratio, max: 1, min_samples: 2}", "greater than or equal to 5"),
    ],
)
def test_a_senseless_gate_is_refused(gate, said):
    with pytest.raises(ConfigError, match="gates"):
        parse_spec(HEAD + f"policy: {{kind: canary, arm: int8}}\ngates: [{gate}]\n")
    with pytest.raises(ConfigError) as found:
        parse_spec(HEAD + f"policy: {{kind: canary, arm: int8}}\ngates:\n- {gate}\n")
    assert said in str(found.value)
    assert found.value.line == 6


NUMBERS = [
    (POLICIES[0], "hold_s: 0"),
    (POLICIES[0], "weight: 1"),
    (POLICIES[0], "min_requests: 1"),
    (POLICIES[1], "int8: 30"),
    (POLICIES[1], "duration_s: 60"),
    (POLICIES[2], "percent: 50"),
    (POLICIES[2], "min_pairs: 10"),
    (POLICIES[3], "above_wait_s: 2"),
    (POLICIES[3], "below_wait_s: 0.5"),
    (POLICIES[0] + "pair_percent: 5\n", "pair_percent: 5"),
    (POLICIES[0] + "keep_previous_s: 5\n", "keep_previous_s: 5"),
    *(
        (POLICIES[0] + f"gates: [{{metric: {gate}}}]\n", gate.partition(", ")[2])
        for gate in (
            "error_ratio, max: 1",
            "level_dbfs, min: 1",
            "latency_p50_ms, max_ratio: 1",
            "latency_p50_ms, max_difference: 1",
        )
    ),
    *(
        (POLICIES[0] + f"gates: [{{metric: error_ratio, max: 1, {number}}}]\n", number)
        for number in ("confidence: 0.9", "min_samples: 5")
    ),
]


@pytest.mark.parametrize("bad", [".inf", "-.inf", ".nan"])
@pytest.mark.parametrize(("text", "number"), NUMBERS, ids=[number for _, number in NUMBERS])
def test_no_number_is_infinite_or_none(text, number, bad):
    assert number in text
    parse_spec(HEAD + text)
    with pytest.raises(ConfigError):
        parse_spec(HEAD + text.replace(number, f"{number.partition(':')[0]}: {bad}", 1))


@pytest.mark.parametrize(
    ("policy", "metric"),
    [
        (POLICIES[0] + "pair_percent: 0\n", "duration_ratio"),
        (POLICIES[2], "first_piece_p95_ms"),
        (POLICIES[3], "level_difference_db"),
        (POLICIES[4], "duration_ratio"),
        (POLICIES[4], "latency_p95_ms"),
    ],
)
def test_a_gate_that_the_policy_cannot_observe_is_refused(policy, metric):
    with pytest.raises(ConfigError, match=f"{metric} cannot be observed by the policy"):
        parse_spec(HEAD + policy + f"gates: [{{metric: {metric}, max: 1}}]\n")


def test_a_route_has_no_number_that_its_file_cannot_hold():
    for wait_s in (float("inf"), float("nan")):
        with pytest.raises(ValidationError):
            Overflow(arm="int8", above_wait_s=wait_s, below_wait_s=1.0)
        with pytest.raises(ValidationError):
            Route(rollout="r1", policy="canary", weights={"int8": wait_s})


def test_without_pairs_there_are_no_default_gates_on_them():
    spec = parse_spec(HEAD + POLICIES[0] + "pair_percent: 0\n")
    assert "pairs" not in {METRICS[gate.metric].source for gate in spec.judged_gates}
    assert parse_spec(HEAD + POLICIES[0] + "gates: []\n").judged_gates == []


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ("{int8: {vocoder: 9}}", "en-joe.vocoder has no version 9; versions: 1, 2, 3"),
        ("{int8: {vocoder: 1}}", "equal to the stable arm, which has vocoder 1 already"),
        ("{int8: {text_frontend: 2}}", "versions: 1"),
    ],
)
def test_what_the_repository_cannot_serve_is_refused(arms, said):
    spec = parse_spec(f"voice: en-joe\narms: {arms}\npolicy: {{kind: canary, arm: int8}}\n")
    with pytest.raises(ConfigError) as found:
        check_spec(spec, VOICES, VERSIONS, {})
    assert said in str(found.value)


def test_two_arms_with_the_same_versions_are_refused():
    text = "voice: en-joe\narms: {a: {vocoder: 2}, b: {vocoder: 2, acoustic: 1}}\n"
    spec = parse_spec(text + "policy: {kind: ab, weights: {a: 10, b: 10}}\n")
    with pytest.raises(ConfigError, match="the same versions as 'a'"):
        check_spec(spec, VOICES, VERSIONS, {})


def test_an_unknown_voice_and_a_second_rollout_are_refused():
    spec = parse_spec(HEAD + POLICIES[0])
    with pytest.raises(ConfigError, match="no voice 'en-joe'; voices: zh"):
        check_spec(spec, {"zh": {}}, VERSIONS, {})
    with pytest.raises(ConfigError, match="the rollout 7 of en-joe has not ended"):
        check_spec(spec, VOICES, VERSIONS, {"en-joe": "7"})
