"""Which arm serves a request: exact shares, users who stay, names and labels, hysteresis."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.edge.routing import (
    OverflowSwitch,
    arm_entry,
    assigned_arm,
    copy_arm,
    is_sampled,
    named_arm,
    uniform,
)
from voxrepo.rollout.route import Overflow, Route
from voxrepo_contract.errors import NotFound

from .arms import ARM, canary
from .arms import arm_entry as arm_row
from .harness import voice

KEYS = [f"user-{number}" for number in range(100_000)]


@pytest.mark.parametrize(
    "weights",
    [{"a": 1.0}, {"a": 50.0}, {"a": 99.9}, {"a": 100.0}, {"a": 33.3, "b": 33.3}, {"a": 5.0, "b": 20.0, "c": 60.0}],
)
def test_100_000_keys_are_divided_within_three_standard_deviations(weights: dict[str, float]) -> None:
    counts = dict.fromkeys([*weights, "stable"], 0)
    for key in KEYS:
        counts[assigned_arm("rollout", weights, key)] += 1
    for arm, count in counts.items():
        share = weights.get(arm, 100.0 - sum(weights.values())) / 100
        deviation = math.sqrt(len(KEYS) * share * (1 - share))
        assert abs(count - len(KEYS) * share) <= 3 * deviation, (arm, count)


Weights = st.dictionaries(st.sampled_from("abcd"), st.floats(0, 25), min_size=1)


@settings(max_examples=200, deadline=None)
@given(weights=Weights, raised_by=st.floats(0, 25), number=st.integers(0, 10**9))
def test_nobody_leaves_an_arm_whose_weight_is_raised(weights: dict[str, float], raised_by: float, number: int) -> None:
    arm = next(iter(weights))
    raised = {**weights, arm: weights[arm] + raised_by}
    if sum(raised.values()) > 100:
        raised = weights
    for key in (f"{number}-{n}" for n in range(20)):
        if assigned_arm("r", weights, key) == arm:
            assert assigned_arm("r", raised, key) == arm


@settings(max_examples=200, deadline=None)
@given(weight=st.floats(0, 100), raised_by=st.floats(0, 100), number=st.integers(0, 10**9))
def test_a_raised_weight_moves_users_towards_the_candidate_only(weight: float, raised_by: float, number: int) -> None:
    raised = min(weight + raised_by, 100.0)
    for key in (f"{number}-{n}" for n in range(20)):
        before, after = (assigned_arm("r", {"a": share}, key) for share in (weight, raised))
        assert before == after or (before, after) == ("stable", "a")


def test_weights_of_nothing_and_of_everything_are_exact() -> None:
    assert {assigned_arm("r", {"a": 0.0}, key) for key in KEYS[:2000]} == {"stable"}
    assert {assigned_arm("r", {"a": 100.0}, key) for key in KEYS[:2000]} == {"a"}
    assert {assigned_arm("r", {"a": 60.0, "b": 40.0}, key) for key in KEYS[:2000]} == {"a", "b"}


def test_every_process_assigns_alike() -> None:
    code = (
        "from voxrepo.edge.routing import assigned_arm\n"
        "print(''.join(assigned_arm('r', {'a': 30.0}, f'user-{n}')[0] for n in range(500)))"
    )
    here = "".join(assigned_arm("r", {"a": 30.0}, key)[0] for key in KEYS[:500])
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert here == there


def test_rollouts_divide_users_independently() -> None:
    first, second = ([assigned_arm(rollout, {"a": 50.0}, key) == "a" for key in KEYS[:10_000]] for rollout in "xy")
    both = sum(a and b for a, b in zip(first, second, strict=True))
    assert abs(both - 2500) <= 3 * math.sqrt(10_000 * 0.25 * 0.75)


def test_an_assignment_takes_less_than_10_us() -> None:
    best_s = math.inf
    for _ in range(5):
        begun_s = time.process_time()
        for key in KEYS[:5000]:
            assigned_arm("rollout", {"candidate": 10.0}, key)
        best_s = min(best_s, (time.process_time() - begun_s) / 5000)
    assert best_s < 10e-6


@given(st.text(max_size=30))
def test_hashes_are_inside_the_open_interval_for_any_key(key: str) -> None:
    assert 0.0 < uniform("r", "a", key) < 1.0


def test_who_is_copied_is_fixed_and_independent_of_the_assignment() -> None:
    sampled = [key for key in KEYS[:20_000] if is_sampled("r", key, 10.0)]
    assert sampled == [key for key in KEYS[:20_000] if is_sampled("r", key, 10.0)]
    assert abs(len(sampled) - 2000) <= 3 * math.sqrt(20_000 * 0.1 * 0.9)
    of_arm = sum(assigned_arm("r", {"a": 30.0}, key) == "a" for key in sampled)
    assert abs(of_arm - 0.3 * len(sampled)) <= 3 * math.sqrt(len(sampled) * 0.3 * 0.7)
    assert not any(is_sampled("r", key, 0.0) for key in KEYS[:1000])
    assert all(is_sampled("r", key, 100.0) for key in KEYS[:1000])


def test_shadows_copy_the_stable_arm_and_pairs_the_arms_with_a_weight() -> None:
    shadow = Route(rollout="r", policy="shadow", shadow_arm="new", shadow_percent=100)
    assert copy_arm(shadow, "stable", "id") == "new"
    assert copy_arm(shadow, "new", "id") is None
    pairs = canary(10, pair_percent=100)
    assert copy_arm(pairs, ARM, "id") == "stable"
    assert copy_arm(pairs, "stable", "id") is None
    assert copy_arm(pairs, "previous", "id") is None
    assert copy_arm(canary(10), ARM, "id") is None


def test_arms_are_found_by_name_and_by_label_if_they_are_loaded() -> None:
    voices = {"en-fake": voice("en-fake"), "en-fake.candidate": arm_row()}
    route = canary(10, labels={"canary": ARM, "previous": "old"})
    assert named_arm("en-fake", "stable", voices, route).name == "en-fake"
    assert named_arm("en-fake", ARM, voices, None).name == "en-fake.candidate"
    assert named_arm("en-fake", "canary", voices, route).name == "en-fake.candidate"
    with pytest.raises(NotFound, match=r"no arm 'previous' that is loaded; its arms: stable, candidate, canary \("):
        named_arm("en-fake", "previous", voices, route)
    with pytest.raises(NotFound, match="'canary'"):
        named_arm("en-fake", "canary", voices, None)


def test_another_voice_with_a_dot_in_its_name_is_no_arm() -> None:
    voices = {"en": voice("en"), "en.fake": voice("en.fake")}
    assert arm_entry("en", "fake", voices) is None


def test_overflow_goes_over_above_one_limit_and_comes_back_below_the_other() -> None:
    overflow = Overflow(arm="cheap", above_wait_s=2.0, below_wait_s=0.5)
    switch = OverflowSwitch()
    waits = [0.0, 1.9, 2.1, 1.0, 0.6, 0.4, 1.9, 2.5]
    arms = [switch.arm(overflow, wait_s) for wait_s in waits]
    assert arms == ["stable", "stable", "cheap", "cheap", "cheap", "stable", "stable", "cheap"]
