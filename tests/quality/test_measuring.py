from __future__ import annotations

import numpy as np
import pytest

from tests.quality.sounds import (
    RATE_HZ,
    Audio,
    band_limited,
    louder,
    noisy,
    resampled_faster,
    rounded,
    speech,
)
from voxrepo.quality.gates import default_gates, judge_gates, verdict_of
from voxrepo.quality.measuring import Measurer, error_rate, signal_to_noise_db, summary
from voxrepo.quality.metric import METRICS
from voxrepo.quality.opinion import OpinionModel
from voxrepo.quality.pesq_score import BEST
from voxrepo.quality.speaking import Spoken
from voxrepo_contract.errors import ConfigError


class OpinionByPower:
    """Stands in for the opinion model where that is not what is tested."""

    def score(self, audio: Audio, sample_rate_hz: int) -> float | None:
        return 4.0


def no_pesq():
    raise ConfigError("the package pesq is not installed; install it")


def measured(candidate: Audio, reference: Audio, *, fixed: bool = True, **options):
    measurer = Measurer("en-US", RATE_HZ, **{"opinion": OpinionByPower, "pesq": no_pesq, **options})
    lines_up = fixed and candidate.size == reference.size
    spoken = Spoken("", reference, candidate, fixed=candidate if lines_up else None)
    return summary([measurer.measure(spoken)]), measurer


def failing(candidate: Audio, reference: Audio) -> set[str]:
    """Gates that fail, the vocoder's."""
    values, measurer = measured(candidate, reference)
    results = judge_gates(default_gates("vocoder", heard=False), values, measurer.missing)
    return {result.metric for result in results if result.outcome == "fail"}


SAID = speech()


def test_equal_audio_has_perfect_scores():
    values, _ = measured(SAID, SAID.copy())
    assert values["fixed_snr_db"] == 120.0
    assert values["fixed_voicing_agreement"] == 1.0
    assert values["duration_ratio"] == values["worst_duration_ratio"] == 1.0
    rest = set(values) - {"fixed_snr_db", "fixed_voicing_agreement", "duration_ratio", "worst_duration_ratio"}
    assert {name: values[name] for name in rest} == dict.fromkeys(rest, 0.0)


def test_every_metric_that_is_measured_is_described():
    values, _ = measured(SAID, noisy(SAID, 30))
    assert set(values) <= set(METRICS)


@pytest.mark.parametrize("decibels", [6.0, -6.0])
def test_louder_and_softer_are_found_by_the_level_alone(decibels: float):
    values, _ = measured(louder(SAID, decibels), SAID)
    assert values["level_difference_db"] == pytest.approx(decibels, abs=0.1)
    assert abs(values["pitch_difference_cents"]) < 5
    assert "level_difference_db" in failing(louder(SAID, decibels), SAID)
    assert "pitch_difference_cents" not in failing(louder(SAID, decibels), SAID)


def test_five_percent_faster_is_found_by_the_duration_ratio_alone():
    assert failing(speech(stretch=0.95), SAID) == {"duration_ratio"}


def test_two_semitones_up_are_found_by_the_pitch():
    higher = speech(pitch_hz=120.0 * 2 ** (2 / 12))
    values, _ = measured(higher, SAID)
    assert values["pitch_difference_cents"] == pytest.approx(200, abs=10)
    assert "pitch_difference_cents" in failing(higher, SAID)


def test_a_tape_that_runs_too_fast_is_found_by_pitch_and_duration():
    fast = resampled_faster(SAID, 1.06)
    assert {"duration_ratio", "pitch_difference_cents"} <= failing(fast, SAID)


def test_a_narrow_band_is_found_by_the_spectral_distance():
    values, _ = measured(band_limited(SAID), SAID)
    assert values["fixed_mcd_db"] > 2.0
    assert "fixed_mcd_db" in failing(band_limited(SAID), SAID)
    assert "level_difference_db" not in failing(band_limited(SAID), SAID)


def test_white_noise_is_found_by_the_signal_to_noise_ratio_and_the_spectral_distance():
    values, _ = measured(noisy(SAID, 20), SAID)
    assert values["fixed_snr_db"] == pytest.approx(20.0, abs=0.1)
    assert "fixed_mcd_db" in failing(noisy(SAID, 20), SAID)


def test_less_noise_gives_a_smaller_distance():
    distances = [measured(noisy(SAID, snr), SAID)[0]["fixed_mcd_db"] for snr in (10, 20, 30, 40, 60)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.5


def test_coarse_rounding_is_found_by_the_spectral_distance():
    coarse = rounded(SAID, 12)
    values, _ = measured(coarse, SAID)
    assert 14 < values["fixed_snr_db"] < 20
    assert "fixed_mcd_db" in failing(coarse, SAID)
    assert not failing(rounded(SAID, 4000), SAID)


def test_clipping_is_found():
    overdriven = louder(SAID, 20)
    assert "clipped_difference" in failing(overdriven, SAID)


def test_added_pauses_are_found_by_the_silence():
    holes = SAID.copy()
    holes[RATE_HZ // 2 : RATE_HZ] = 0
    assert "silence_difference" in failing(holes, SAID)


def test_silence_is_found_by_the_level():
    found = failing(np.zeros_like(SAID), SAID)
    assert {"level_difference_db", "silence_difference"} <= found


def test_other_noise_is_different_but_fine():
    other = speech(noise_seed=5)
    values, measurer = measured(other, SAID)
    free = judge_gates(default_gates("acoustic", heard=False), values, measurer.missing)
    assert verdict_of(free) == "accepted", [result.reason for result in free]
    assert "fixed_mcd_db" in failing(other, SAID)


def test_what_is_not_installed_is_said_and_keeps_from_accepting():
    values, measurer = measured(SAID, SAID.copy())
    results = judge_gates(default_gates("vocoder", heard=False), values, measurer.missing)
    (pesq,) = [result for result in results if result.metric == "fixed_pesq"]
    assert pesq.outcome == "inconclusive"
    assert "the package pesq is not installed; install it" in pesq.reason
    assert verdict_of(results) == "inconclusive"


def test_numbers_do_not_depend_on_what_was_measured_before():
    measurer = Measurer("en-US", RATE_HZ, opinion=OpinionByPower, pesq=no_pesq)
    spoken = Spoken("", SAID, noisy(SAID, 25), fixed=noisy(SAID, 25))
    first = measurer.measure(spoken)
    measurer.measure(Spoken("", speech(seed=3), speech(seed=4)))
    assert measurer.measure(spoken) == first


def test_pesq_hears_noise_and_knows_what_is_equal():
    pytest.importorskip("pesq", reason="the package pesq is not installed; bash scripts/pesq.sh")
    from voxrepo.quality.pesq_score import Pesq

    same, _ = measured(SAID, SAID.copy(), pesq=Pesq)
    noise, _ = measured(noisy(SAID, 20), SAID, pesq=Pesq)
    assert same["fixed_pesq"] == pytest.approx(BEST, abs=0.001)
    assert noise["fixed_pesq"] < 4.4


def test_pesq_says_nothing_of_silence_and_of_less_than_it_takes():
    pytest.importorskip("pesq", reason="the package pesq is not installed; bash scripts/pesq.sh")
    from voxrepo.quality.pesq_score import Pesq

    scorer = Pesq()
    assert scorer.score(np.zeros_like(SAID), SAID, RATE_HZ) is None
    assert scorer.score(SAID[:2000], SAID[:2000], RATE_HZ) is None


def test_the_opinion_of_noisy_speech_is_lower():
    pytest.importorskip("speechmos", reason="the extra 'quality' is not installed")
    values, _ = measured(noisy(SAID, 5), SAID, opinion=OpinionModel)
    assert values["p808_drop"] > 0.15


def test_errors_of_chinese_are_counted_by_syllable_without_tones():
    pytest.importorskip("pypinyin")
    pytest.importorskip("jiwer")
    assert error_rate("今天天气不错", "今天天汽不错", "zh-CN") == 0.0
    assert error_rate("今天天气不错", "明天天气不错", "zh-CN") == pytest.approx(1 / 6)


def test_errors_of_english_are_counted_by_word():
    pytest.importorskip("jiwer")
    assert error_rate("the train leaves now", "The train lives now.", "en-US") == 0.25


def test_signal_to_noise_is_the_textbooks():
    reference = np.array([1000, -1000, 1000, -1000], np.int16)
    assert signal_to_noise_db(reference + np.int16(10), reference) == pytest.approx(40.0)
    assert signal_to_noise_db(reference, np.zeros_like(reference)) is None
