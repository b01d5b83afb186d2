from __future__ import annotations

import numpy as np
import pytest
from om_backend.noise import DURATION, PRIOR, gaussian


def test_the_same_seed_gives_the_same_noise():
    assert np.array_equal(gaussian(5, 2, PRIOR, (3, 40)), gaussian(5, 2, PRIOR, (3, 40)))


def test_noise_does_not_depend_on_what_was_drawn_before():
    alone = gaussian(5, 2, PRIOR, (3, 40))
    for segment in (7, 0, 2, 1):
        gaussian(5, segment, DURATION, (2, 100))
    np.random.default_rng(1).standard_normal(1000)
    assert np.array_equal(gaussian(5, 2, PRIOR, (3, 40)), alone)


@pytest.mark.parametrize(
    "other",
    [(6, 2, PRIOR), (5, 3, PRIOR), (5, 1, PRIOR), (5, 2, DURATION), (-5, 2, PRIOR), (5 + (1 << 32), 2, PRIOR)],
)
def test_other_seeds_segments_and_purposes_give_other_noise(other: tuple[int, int, int]):
    ours = gaussian(5, 2, PRIOR, (2000,))
    theirs = gaussian(*other, (2000,))
    assert abs(float(np.corrcoef(ours, theirs)[0, 1])) < 0.1


def test_streams_of_neighbouring_segments_do_not_meet():
    seen = {gaussian(0, segment, purpose, (4,)).tobytes() for segment in range(200) for purpose in (DURATION, PRIOR)}
    assert len(seen) == 400


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63 - 1, 2**64 + 3])
def test_takes_every_int64_seed(seed: int):
    assert np.isfinite(gaussian(seed, 0, PRIOR, (10,))).all()


def test_a_negative_seed_is_its_two_complement():
    assert np.array_equal(gaussian(-1, 0, PRIOR, (5,)), gaussian((1 << 64) - 1, 0, PRIOR, (5,)))


def test_noise_is_standard_normal():
    noise = gaussian(1, 0, PRIOR, (192, 1000)).astype(np.float64)
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 1) < 0.01
    assert noise.dtype == np.float64
    assert gaussian(1, 0, PRIOR, (2, 3)).dtype == np.float32


def test_values_do_not_change_between_releases():
    # answers to a seed that a client kept must stay what they were; see NumPy's stream compatibility for Philox
    np.testing.assert_array_equal(
        gaussian(0, 0, DURATION, (4,)),
        np.array([0.059911035001277924, 0.015559634193778038, -1.1644384860992432, -0.13264712691307068], np.float32),
    )
    np.testing.assert_array_equal(
        gaussian(42, 3, PRIOR, (4,)),
        np.array([-0.5471856594085693, 1.812480092048645, 1.7433124780654907, -1.5194835662841797], np.float32),
    )
