from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from tests.rollout.speech import arm_samples
from voxrepo.rollout.defaults import MIN_REQUESTS
from voxrepo.rollout.gate import Gate
from voxrepo.rollout.gates import judge, judge_gate
from voxrepo.rollout.plan import RequestSeen
from voxrepo.rollout.samples import ArmSamples, from_requests
from voxrepo.rollout.spec import parse_spec

CANARY = parse_spec("voice: en-joe\narms: {int8: {vocoder: 2}}\npolicy: {kind: canary, arm: int8}\n")


def failed_metrics(judgement) -> set[str]:
    return {verdict.metric for verdict in judgement.failed()}


@pytest.mark.parametrize(
    ("fault", "metric"),
    [
        ({"errors": 1.0}, "error_ratio"),
        ({"errors": 0.15}, "error_ratio"),
        ({"slower": 3.0}, "latency_p50_ms"),
        ({"slower": 2.0, "waits_s": 5.0}, "engine_real_time_factor"),
        ({"is_silent": True}, "silence_ratio"),
        ({"louder_db": 6.0}, "level_difference_db"),
        ({"faster": 1.3}, "duration_ratio"),
        ({"clipped": 0.01}, "clipped_ratio"),
    ],
)
def test_default_gates_tell_a_broken_arm_within_the_minimum_of_a_step(fault, metric):
    for seed in range(20):
        alike = {"waits_s": fault.get("waits_s", 0.0)}
        samples = {"stable": arm_samples(19 * MIN_REQUESTS, seed=1000 + seed, **alike)}
        samples["int8"] = arm_samples(MIN_REQUESTS, seed=seed, **fault)
        judgement = judge(CANARY, samples, 0.0)
        assert metric in failed_metrics(judgement), [verdict.reason for verdict in judgement.verdicts]


def test_default_gates_never_take_back_a_good_arm_however_often_they_look():
    passed = 0
    for seed in range(30):
        stable, good = arm_samples(19 * MIN_REQUESTS, seed=500 + seed), arm_samples(MIN_REQUESTS, seed=seed)
        for requests in range(10, MIN_REQUESTS + 1, 10):
            part = {"stable": first(stable, 19 * requests), "int8": first(good, requests)}
            judgement = judge(CANARY, part, 0.0)
            assert not judgement.failed(), [verdict.reason for verdict in judgement.failed()]
        passed += not judgement.open()
    assert passed >= 27


def first(samples: ArmSamples, requests: int) -> ArmSamples:
    columns = {field.name: getattr(samples, field.name) for field in fields(samples)}
    pairs = {name: values[: requests // 5] for name, values in columns.pop("pairs").items()}
    return ArmSamples(**{name: values[:requests] for name, values in columns.items()}, pairs=pairs)


def test_too_little_traffic_neither_passes_nor_fails():
    samples = {"stable": arm_samples(4), "int8": arm_samples(4, seed=1, slower=10.0, louder_db=30.0, clipped=0.5)}
    verdicts = judge(CANARY, samples, 0.0).verdicts
    assert {verdict.verdict for verdict in verdicts} == {"inconclusive"}
    assert all("needed" in verdict.reason or "no pairs" in verdict.reason for verdict in verdicts)
    assert {verdict.verdict for verdict in judge(CANARY, {}, 0.0).verdicts} == {"inconclusive"}


def test_three_certain_errors_fail_before_the_minimum_of_samples_and_two_do_not():
    gate = Gate(metric="error_ratio", max=0.02, min_samples=100)
    for errors, verdict in ((2, "inconclusive"), (3, "fail")):
        samples = ArmSamples(failed=np.array([True] * errors + [False] * 3))
        assert judge_gate(gate, "int8", samples, ArmSamples()).verdict == verdict
    # three among ninety may be one in fifty
    samples = ArmSamples(failed=np.array([True] * 3 + [False] * 87))
    assert judge_gate(gate, "int8", samples, ArmSamples()).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("level", "verdict"), [(-20.0, "pass"), (-14.0, "fail"), (-26.0, "fail"), (-18.0, "inconclusive")]
)
def test_a_level_may_differ_to_neither_side(level, verdict):
    gate = Gate(metric="level_dbfs", max_difference=2.0)
    generator = np.random.default_rng(2)
    stable, arm = arm_samples(200, seed=3), arm_samples(200, seed=4)
    stable = ArmSamples(failed=stable.failed, level_dbfs=generator.normal(-20.0, 1.5, 200))
    arm = ArmSamples(failed=arm.failed, level_dbfs=level + generator.normal(0, 1.5, 200) * (level != -18.0) + 0.0)
    if level == -18.0:
        arm = ArmSamples(failed=arm.failed, level_dbfs=stable.level_dbfs + generator.normal(2.0, 1.5, 200))
    assert judge_gate(gate, "int8", arm, stable).verdict == verdict


def test_recognised_words_are_compared_pair_by_pair():
    gate = Gate(metric="word_error_rate", max_difference=0.02, min_samples=20)
    hard = np.random.default_rng(0).choice([0.0, 0.5, 1.0], 40)  # texts that the recogniser gets wrong from either
    for extra, verdict in ((0.0, "pass"), (0.2, "fail")):
        pairs = {"word_error_rate": hard + extra, "stable_word_error_rate": hard}
        found = judge_gate(gate, "int8", ArmSamples(pairs=pairs), ArmSamples())
        assert found.verdict == verdict
        assert found.stable_value == pytest.approx(float(hard.mean()))


def test_the_reason_gives_value_interval_samples_and_limit():
    found = judge_gate(
        Gate(metric="latency_p50_ms", max_ratio=1.3), "int8", arm_samples(200, slower=3), arm_samples(900)
    )
    assert found.verdict == "fail"
    assert found.value == pytest.approx(3, rel=0.2) and found.low is not None and found.low > 1.3
    for part in ("latency_p50_ms of int8 is", "times stable's", "interval", "200 requests", "at most 1.3 times stable"):
        assert part in found.reason


def test_a_dry_run_is_reported_and_decides_nothing():
    spec = CANARY.model_copy(update={"gates": [Gate(metric="error_ratio", max=0.01, dry_run=True)]})
    judgement = judge(spec, {"int8": arm_samples(100, errors=1.0)}, 0.0)
    assert judgement.verdicts[0].verdict == "fail"
    assert not judgement.failed() and not judgement.open()


def test_the_winner_is_the_arm_that_is_better_beyond_chance():
    text = (
        "voice: en-joe\narms: {a: {vocoder: 2}, b: {vocoder: 3}}\n"
        "policy: {kind: ab, weights: {a: 30, b: 30}, winner: latency_p50_ms}\n"
    )
    spec = parse_spec(text)
    stable = arm_samples(1000, seed=1)
    faster = {"stable": stable, "a": arm_samples(1000, seed=2, slower=0.8), "b": arm_samples(1000, seed=3, slower=0.7)}
    judgement = judge(spec, faster, 0.0)
    assert judgement.winner == "b"
    assert "b is" in judgement.winner_reason
    equal = {"stable": stable, "a": arm_samples(1000, seed=2), "b": arm_samples(1000, seed=3, slower=1.2)}
    assert judge(spec, equal, 0.0).winner == "stable"
    assert judge(spec, {"a": faster["a"]}, 0.0).winner == "stable"


def test_clients_that_left_and_refusals_are_no_samples():
    def seen(outcome, latency_s):
        facts = {"outcome": outcome, "latency_s": latency_s, "audio_s": 2.0, "engine_s": latency_s / 2}
        return RequestSeen(at=1.0, rollout="r", voice="v", arm="a", **facts)

    samples = from_requests(
        [seen("ok", 1.0), seen("failed", 0.1), seen("timed_out", 9.0), seen("cancelled", 5.0), seen("rejected", 0.0)]
    )
    assert (samples.requests, samples.failures) == (3, 2)
    assert samples.of(Gate(metric="latency_p50_ms", max=1.0).of).tolist() == [1000.0]
    assert samples.of(Gate(metric="real_time_factor", max=1.0).of).tolist() == [0.5]
    assert samples.of(Gate(metric="engine_real_time_factor", max=1.0).of).tolist() == [0.25]
