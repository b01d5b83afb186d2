from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.length_regulator import frame_counts, sample_prior

durations_lists = st.lists(st.floats(-10, 1e6, width=32), min_size=1, max_size=60)


def counts_of(durations: list[float], scale: float = 1.0, per_id: int = 10**6, per_segment: int = 10**9) -> list[int]:
    result: list[int] = frame_counts(np.array(durations, np.float32), scale, per_id, per_segment).tolist()
    return result


@given(durations_lists, st.floats(0.1, 8), st.integers(1, 500))
def test_counts_are_the_ceiling_of_the_scaled_duration_within_its_clamp(
    durations: list[float], scale: float, per_id: int
):
    assert counts_of(durations, scale, per_id) == [min(max(math.ceil(d * scale), 1), per_id) for d in durations]


@pytest.mark.parametrize(("duration", "count"), [(0.0, 1), (-3.0, 1), (0.01, 1), (1.0, 1), (1.001, 2), (2.5, 3)])
def test_an_id_has_at_least_one_frame(duration: float, count: int):
    assert counts_of([duration]) == [count]


def test_infinite_durations_are_clamped():
    assert counts_of([math.inf, -math.inf, 3e38], scale=4.0, per_id=200) == [200, 1, 200]


@given(durations_lists, st.integers(1, 200), st.integers(1, 2000))
def test_a_segment_never_exceeds_its_limit(durations: list[float], per_id: int, per_segment: int):
    counts = counts_of(durations, 1.0, per_id, per_segment)
    assert min(counts) >= 1
    assert sum(counts) <= max(per_segment, len(durations))
    free = counts_of(durations, 1.0, per_id)
    if sum(free) <= per_segment:
        assert counts == free
    else:
        # the longest are cut to one height, the rest is untouched, and one frame more would not have fitted
        height = max(counts)
        assert counts == [min(count, height) for count in free]
        assert sum(min(count, height + 1) for count in free) > per_segment or len(durations) > per_segment


def test_the_longest_ids_are_cut_first():
    assert counts_of([5, 100, 3, 80], per_segment=50) == [5, 21, 3, 21]


def test_latents_follow_the_formula():
    rng = np.random.default_rng(3)
    channels, ids = 4, 5
    mean = rng.standard_normal((channels, ids)).astype(np.float32)
    log_scale = rng.standard_normal((channels, ids)).astype(np.float32)
    counts = np.array([1, 3, 2, 1, 4], np.int64)
    noise = rng.standard_normal((channels, 11)).astype(np.float32)
    latent = sample_prior(mean, log_scale, counts, noise, 0.667)
    expected = np.zeros((channels, 11))
    frame = 0
    for index, count in enumerate(counts):
        for _ in range(count):
            for channel in range(channels):
                spread = math.exp(log_scale[channel, index]) * 0.667
                expected[channel, frame] = mean[channel, index] + noise[channel, frame] * spread
            frame += 1
    assert latent.dtype == np.float32
    np.testing.assert_allclose(latent, expected, rtol=1e-5, atol=1e-6)


def test_without_noise_each_mean_is_repeated():
    mean = np.array([[1.0, 2.0]], np.float32)
    latent = sample_prior(mean, np.zeros_like(mean), np.array([2, 3]), np.ones((1, 5), np.float32), 0.0)
    assert latent.tolist() == [[1, 1, 2, 2, 2]]
    assert mean.tolist() == [[1.0, 2.0]]
