from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.quality.cepstrum import COEFFICIENTS, DISTANCE_FACTOR, aligned_mean, distances
from voxrepo.quality.comparison import compare

RATE_HZ = 22_050


def vowels(seconds: float, *, tilt: float = 1.0, seed: int = 0, gain: float = 1.0) -> npt.NDArray[np.int16]:
    """A buzz whose spectrum changes every tenth of its length, as speech does."""
    count = round(seconds * RATE_HZ)
    times = np.arange(count) / RATE_HZ
    envelope = np.random.default_rng(seed).uniform(0.1, 1.0, (10, 40))
    parts = np.repeat(envelope, -(-count // 10), axis=0)[:count]
    waves = sum(parts[:, k - 1] * np.sin(2 * np.pi * 120 * k * times + k * k) / k**tilt for k in range(1, 41))
    return np.clip(np.asarray(waves) * 3000 * gain, -32767, 32767).astype(np.int16)


def slow_mean(costs: npt.NDArray[np.float32]) -> float:
    """Dynamic time warping cell by cell."""
    rows, columns = costs.shape
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for i in range(rows):
        for j in range(columns):
            ways = [best[p] for p in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if p in best]
            total, length = min(ways, key=lambda way: way[0], default=(0.0, 0))
            best[i, j] = (total + float(costs[i, j]), length + 1)
    total, length = best[rows - 1, columns - 1]
    return total / length


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_the_alignment_is_that_of_a_plain_loop(rows: int, columns: int, seed: int):
    costs = np.random.default_rng(seed).uniform(0.1, 9, (rows, columns)).astype(np.float32)
    assert aligned_mean(costs) == pytest.approx(slow_mean(costs), rel=1e-5)


def test_the_distance_is_kubicheks_formula():
    one, other = np.random.default_rng(1).normal(size=(2, 1, COEFFICIENTS)).astype(np.float32)
    expected = 10 / np.log(10) * np.sqrt(2 * np.sum((one - other) ** 2))
    assert distances(one, other)[0, 0] == pytest.approx(expected, rel=1e-5)
    assert pytest.approx(6.1419, abs=1e-4) == DISTANCE_FACTOR


def test_an_utterance_does_not_differ_from_itself():
    audio = vowels(2.0)
    compared = compare(audio, audio, RATE_HZ)
    assert compared.duration_ratio == 1.0
    assert compared.level_difference_db == 0.0
    assert compared.mel_cepstral_distance_db == pytest.approx(0.0, abs=0.01)


def test_loudness_is_told_apart_from_timbre():
    compared = compare(vowels(2.0, gain=2.0), vowels(2.0), RATE_HZ)
    assert compared.level_difference_db == pytest.approx(6.02, abs=0.02)
    assert compared.mel_cepstral_distance_db is not None and compared.mel_cepstral_distance_db < 0.5


def test_another_speed_is_told_apart_from_timbre():
    compared = compare(vowels(1.4), vowels(2.0), RATE_HZ)
    other = compare(vowels(2.0, seed=5), vowels(2.0), RATE_HZ).mel_cepstral_distance_db
    assert compared.duration_ratio == pytest.approx(0.7)
    assert compared.mel_cepstral_distance_db is not None and other is not None
    assert compared.mel_cepstral_distance_db < 0.6 * other


def test_a_duller_sound_is_farther_the_duller_it_is():
    base = vowels(2.0)
    found = [compare(vowels(2.0, tilt=tilt), base, RATE_HZ).mel_cepstral_distance_db for tilt in (1.1, 1.4, 2.0)]
    assert found == sorted(found, key=lambda value: value or 0.0)
    assert found[0] is not None and 0.1 < found[0] < 2.0


def test_noise_is_farther_than_other_words():
    base = vowels(2.0)
    noise = np.random.default_rng(0).normal(0, 3000, len(base)).astype(np.int16)
    of_noise = compare(noise, base, RATE_HZ).mel_cepstral_distance_db
    of_words = compare(vowels(2.0, seed=5), base, RATE_HZ).mel_cepstral_distance_db
    assert of_noise is not None and of_words is not None and of_noise > of_words


def test_pauses_make_no_distance():
    base = vowels(2.0)
    pause = np.zeros(RATE_HZ // 2, np.int16)
    compared = compare(np.concatenate([pause, base, pause]), base, RATE_HZ)
    assert compared.mel_cepstral_distance_db is not None and compared.mel_cepstral_distance_db < 0.3


@pytest.mark.parametrize("silent", [np.zeros(0, np.int16), np.zeros(RATE_HZ, np.int16)])
def test_silence_has_no_distance(silent: npt.NDArray[np.int16]):
    audio = vowels(1.0)
    assert compare(silent, audio, RATE_HZ).mel_cepstral_distance_db is None
    assert compare(audio, silent, RATE_HZ).mel_cepstral_distance_db is None
    assert compare(audio, silent[:0], RATE_HZ).duration_ratio is None


def test_ten_seconds_are_compared_in_less_than_0_3_s():
    one, other = vowels(10.0), vowels(9.0)
    compare(one, other, RATE_HZ)
    started = time.process_time()
    compare(one, other, RATE_HZ)
    assert time.process_time() - started < 0.3
