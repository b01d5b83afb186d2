from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrepo.rollout import statistics as s


@pytest.mark.parametrize(
    ("freedom", "expected"), [(4, 2.7764), (9, 2.2622), (19, 2.0930), (29, 2.0452), (99, 1.9842), (1e9, 1.9600)]
)
def test_student_quantile_agrees_with_printed_tables(freedom, expected):
    assert s.student_quantile(0.95, freedom) == pytest.approx(expected, rel=1e-3)


def test_wilson_interval_agrees_with_brown_cai_and_dasgupta():
    # 10 of 100 at 95 %: (0.0552, 0.1744)
    found = s.share(10, 100, 0.95)
    assert [found.low, found.high] == pytest.approx([0.0552, 0.1744], abs=1e-4)
    assert s.share(0, 200, 0.95).low == 0.0
    assert s.share(0, 200, 0.95).high == pytest.approx(0.0188, abs=1e-4)
    assert s.share(5, 5, 0.95).high == 1.0


def test_newcombe_interval_agrees_with_the_paper():
    # Newcombe 1998, table II, case (a): 56/70 - 48/80, method 10: 0.0524 to 0.3339
    found = s.share_difference(56, 70, 48, 80, 0.95)
    assert [found.low, found.high] == pytest.approx([0.0524, 0.3339], abs=1e-4)


def test_ranks_of_a_quantile_agree_with_the_binomial_table():
    # Conover: n = 20, median, 95 %: 6th and 15th order statistics
    values = np.arange(1.0, 21.0)
    found = s.quantile(values, 0.5, 0.95)
    assert (found.low, found.value, found.high) == (6.0, 10.0, 15.0)


def test_a_quantile_that_too_few_samples_cannot_bound_is_unbounded():
    found = s.quantile(np.arange(1.0, 31.0), 0.95, 0.95)
    assert math.isinf(found.high) and math.isfinite(found.low)
    assert math.isfinite(s.quantile(np.arange(1.0, 201.0), 0.95, 0.95).high)


def interval_and_truth(kind, values, base):
    if kind == "share":
        return s.share(int((values > 2).sum()), len(values), 0.95), 0.08283
    if kind == "mean":
        return s.mean(values, 0.95), math.exp(0.125)
    if kind == "median":
        return s.quantile(values, 0.5, 0.95), 1.0
    if kind == "p95":
        return s.quantile(values, 0.95, 0.95), math.exp(0.5 * 1.644854)
    if kind == "ratio":
        return s.quantile_ratio(values * 1.5, base, 0.95, 0.95), 1.5
    return s.mean_difference(values, base, 0.95), 0.0


@pytest.mark.parametrize("kind", ["share", "mean", "median", "p95", "ratio", "mean difference"])
def test_intervals_cover_the_truth_as_often_as_they_say(kind):
    generator = np.random.default_rng(3)
    covered = 0
    rounds = 400
    for _ in range(rounds):
        values, base = generator.lognormal(0, 0.5, 200), generator.lognormal(0, 0.5, 300)
        found, truth = interval_and_truth(kind, values, base)
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / rounds <= 0.99


def test_bootstrap_is_the_same_every_time_and_that_of_drawn_samples():
    generator = np.random.default_rng(5)
    values, base = generator.lognormal(0, 0.5, 150), generator.lognormal(0, 0.5, 250)
    found = s.quantile_ratio(values, base, 0.5, 0.95)
    assert found == s.quantile_ratio(values[::-1].copy(), base, 0.5, 0.95)
    drawn = []
    for _ in range(3000):
        one = np.sort(generator.choice(values, len(values)))[74]
        other = np.sort(generator.choice(base, len(base)))[124]
        drawn.append(one / other)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found.low == pytest.approx(low, rel=0.02)
    assert found.high == pytest.approx(high, rel=0.02)


def test_no_samples_exclude_nothing():
    none = np.empty(0)
    some = np.ones(50)
    for found in (
        s.mean(none, 0.95),
        s.mean(np.ones(1), 0.95),
        s.quantile(none, 0.5, 0.95),
        s.mean_difference(none, some, 0.95),
        s.quantile_difference(none, some, 0.5, 0.95),
        s.quantile_ratio(some, none, 0.5, 0.95),
        s.quantile_ratio(some, np.zeros(50), 0.5, 0.95),
    ):
        assert found.low <= 0.0 and math.isinf(found.high)
    assert s.share(0, 0, 0.95).low == 0.0 and s.share(0, 0, 0.95).high == 1.0
    assert s.summarise(none) is None


def test_values_that_are_no_numbers_are_left_out():
    found = s.summarise(np.array([1.0, math.nan, 3.0, math.inf, 2.0]))
    assert found is not None
    assert (found.count, found.mean, found.p50, found.greatest) == (3, 2.0, 2.0, 3.0)


@given(
    st.lists(st.floats(0.001, 1e6), min_size=1, max_size=200),
    st.floats(0.01, 0.99),
    st.floats(0.5, 0.999),
)
def test_a_quantile_lies_within_its_interval(values, probability, confidence):
    found = s.quantile(np.array(values), probability, confidence)
    assert found.low <= found.value <= found.high


@given(st.integers(0, 500), st.integers(1, 500), st.floats(0.5, 0.999))
def test_a_share_lies_within_its_interval(hits, count, confidence):
    hits = min(hits, count)
    found = s.share(hits, count, confidence)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0


def test_fifty_thousand_samples_are_judged_in_a_moment():
    import time

    generator = np.random.default_rng(1)
    values, base = generator.lognormal(0, 0.5, 50_000), generator.lognormal(0, 0.5, 50_000)
    s.quantile_ratio(values[:10], base[:10], 0.95, 0.95)
    began = time.process_time()
    s.quantile_ratio(values, base, 0.95, 0.95)
    assert time.process_time() - began < 0.5
