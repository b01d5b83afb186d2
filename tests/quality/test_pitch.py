from __future__ import annotations

import numpy as np
import pytest

from tests.quality.sounds import RATE_HZ, clipped, speech
from voxrepo.quality.pitch import pitch_difference, pitch_track
from voxrepo.quality.resampling import resampled


@pytest.mark.parametrize("pitch_hz", [75.0, 110.0, 220.0, 380.0])
def test_the_pitch_of_a_buzz_is_found(pitch_hz: float):
    times = np.arange(RATE_HZ) / RATE_HZ
    buzz = sum(np.sin(2 * np.pi * pitch_hz * k * times) / k for k in range(1, 9))
    track = pitch_track(clipped(3000 * np.asarray(buzz, np.float64)), RATE_HZ)
    assert len(track.voiced_hz) == track.sounding.sum()
    assert np.median(track.voiced_hz) == pytest.approx(pitch_hz, rel=0.002)


def test_noise_is_not_voiced():
    noise = clipped(3000 * np.random.default_rng(0).standard_normal(RATE_HZ))
    track = pitch_track(noise, RATE_HZ)
    assert len(track.voiced_hz) / track.sounding.sum() < 0.05


def test_silence_and_less_than_a_frame_have_no_pitch():
    for audio in (np.zeros(RATE_HZ, np.int16), np.ones(10, np.int16)):
        track = pitch_track(audio, RATE_HZ)
        assert not track.sounding.any()
        difference = pitch_difference(track, pitch_track(speech(), RATE_HZ), line_up=True)
        assert difference.median_cents is None


def test_resampling_keeps_what_is_below_half_the_lower_rate():
    times = np.arange(RATE_HZ) / RATE_HZ
    tone = clipped(8000 * np.sin(2 * np.pi * 1000 * times))
    moved = resampled(tone, RATE_HZ, 16_000)
    assert moved.shape == (16_000,)
    expected = 8000 / 32768 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)
    assert np.abs(moved - expected)[200:-200].max() < 2e-3
    assert np.abs(resampled(clipped(8000 * np.sin(2 * np.pi * 9000 * times)), RATE_HZ, 16_000))[200:-200].max() < 2e-3
