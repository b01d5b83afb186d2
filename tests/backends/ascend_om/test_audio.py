from __future__ import annotations

import numpy as np
import pytest
from om_backend.audio import check_audible, silence, to_int16

from voxrepo_contract.errors import Internal


def pcm(values: list[float], gain: float = 1.0) -> list[int]:
    samples: list[int] = to_int16(np.array(values, np.float32), gain).tolist()
    return samples


def test_full_scale_is_32767():
    assert pcm([0.0, 1.0, -1.0]) == [0, 32767, -32767]


def test_samples_are_rounded_to_the_nearest_step():
    assert pcm([0.4 / 32767, 0.6 / 32767, -0.4 / 32767, -0.6 / 32767, 2.9 / 32767]) == [0, 1, 0, -1, 3]


def test_samples_beyond_full_scale_are_clipped_and_never_wrap():
    assert pcm([1.5, -1.5, 1000.0, -1000.0, 1.00001]) == [32767, -32768, 32767, -32768, 32767]


def test_gain_is_applied_before_clipping():
    assert pcm([0.25, 0.6], gain=2.0) == [round(0.5 * 32767), 32767]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_numbers_are_refused(bad: float):
    with pytest.raises(Internal, match="not finite"):
        pcm([0.1, bad, 0.2])


def test_the_waveform_is_left_as_it_was():
    wave = np.array([0.5, 2.0], np.float32)
    assert to_int16(wave, 3.0).dtype == np.int16
    assert wave.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("peak", [33, -33, 32767, -32768])
def test_speech_is_audible(peak: int):
    check_audible([np.zeros(3, np.int16), np.array([0, 1, peak, 0], np.int16)])


@pytest.mark.parametrize("samples", [[], [0], [0] * 100, [32, -32], [32767] * 9, [-20000, -20001, -20000]])
def test_silence_is_refused(samples: list[int]):
    with pytest.raises(Internal, match="silence"):
        check_audible([np.array(samples, np.int16), np.zeros(2, np.int16)])


@pytest.mark.parametrize(("pause_ms", "rate", "samples"), [(0, 22050, 0), (1000, 22050, 22050), (150, 22050, 3308)])
def test_a_pause_lasts_what_it_says(pause_ms: int, rate: int, samples: int):
    pause = silence(pause_ms, rate)
    assert pause.dtype == np.int16
    assert len(pause) == samples
    assert not pause.any()
