from __future__ import annotations

import math
import time

import numpy as np
import numpy.typing as npt
import pytest

from voxrepo.quality.levels import FLOOR_DBFS, measure_levels

RATE_HZ = 16_000


def tone(seconds: float, level_dbfs: float, frequency_hz: float = 400.0) -> npt.NDArray[np.int16]:
    """A sine with this root mean square."""
    amplitude = 32767 * math.sqrt(2) * 10 ** (level_dbfs / 20)
    times = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    samples: npt.NDArray[np.int16] = np.round(amplitude * np.sin(2 * np.pi * frequency_hz * times)).astype(np.int16)
    return samples


def silence(seconds: float) -> npt.NDArray[np.int16]:
    return np.zeros(round(seconds * RATE_HZ), np.int16)


@pytest.mark.parametrize("level_dbfs", [-40.0, -23.0, -6.0])
def test_the_level_is_the_root_mean_square(level_dbfs: float):
    levels = measure_levels(tone(2.0, level_dbfs), RATE_HZ)
    assert levels.level_dbfs == pytest.approx(level_dbfs, abs=0.05)
    assert levels.peak_dbfs == pytest.approx(level_dbfs + 3.01, abs=0.05)
    assert levels.duration_s == 2.0
    assert levels.silence_ratio == 0.0


def test_pauses_do_not_lower_the_level_and_are_counted():
    levels = measure_levels(np.concatenate([silence(1.0), tone(2.0, -20.0), silence(1.0)]), RATE_HZ)
    assert levels.level_dbfs == pytest.approx(-20.0, abs=0.05)
    assert levels.silence_ratio == pytest.approx(0.5)


def test_twice_as_loud_is_6_db_more_though_fewer_frames_are_pauses():
    fading = np.concatenate([tone(0.1, level) for level in np.linspace(-20, -75, 40)])
    one, other = (measure_levels(audio, RATE_HZ) for audio in (fading, (fading // 2).astype(np.int16)))
    assert one.silence_ratio < other.silence_ratio
    assert one.level_dbfs - other.level_dbfs == pytest.approx(6.02, abs=0.15)


def test_samples_at_either_end_of_the_range_are_clipped():
    audio = silence(1.0)
    audio[:80] = 32767
    audio[80:160] = -32768
    audio[160:240] = 32766
    assert measure_levels(audio, RATE_HZ).clipped_ratio == pytest.approx(160 / RATE_HZ)


@pytest.mark.parametrize("audio", [np.zeros(0, np.int16), np.zeros(50, np.int16), np.zeros(RATE_HZ, np.int16)])
def test_what_has_no_level_gets_the_floor_and_is_all_silence(audio: npt.NDArray[np.int16]):
    levels = measure_levels(audio, RATE_HZ)
    assert (levels.level_dbfs, levels.peak_dbfs, levels.silence_ratio) == (FLOOR_DBFS, FLOOR_DBFS, 1.0)
    assert math.isfinite(levels.clipped_ratio)


def test_the_end_that_fills_no_frame_counts_too():
    audio = np.concatenate([silence(0.02), tone(0.01, -20.0)])
    levels = measure_levels(audio, RATE_HZ)
    assert levels.silence_ratio == 0.5
    assert levels.level_dbfs == pytest.approx(-20.0, abs=0.1)


def test_batch_and_flat_shapes_measure_alike():
    audio = tone(1.0, -20.0)
    assert measure_levels(audio[None], RATE_HZ) == measure_levels(audio, RATE_HZ)


def test_ten_seconds_take_less_than_five_milliseconds():
    audio = np.tile(tone(1.0, -20.0), 10)
    measure_levels(audio, RATE_HZ)
    started = time.process_time()
    for _ in range(20):
        measure_levels(audio, RATE_HZ)
    assert (time.process_time() - started) / 20 < 0.005
