from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.repository.tiny import voice_spec
from voxrepo.versions.scores import Utterance, score
from voxrepo.versions.smoke import SmokeRefused, check_utterance
from voxrepo.versions.texts import TEXTS, texts_for
from voxrepo_contract.errors import ConfigError

RATE_HZ = 16_000


def said(seconds: float = 1.0, amplitude: float = 0.1, latency_s: float = 0.1, text: str = "hello") -> Utterance:
    times = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    wave = sum(np.sin(2 * np.pi * 150 * k * times) / k for k in range(1, 20))
    audio = np.clip(np.asarray(wave) * amplitude * 32767, -32767, 32767).astype(np.int16)
    return Utterance(text, audio, RATE_HZ, latency_s)


def test_scores_have_the_names_of_the_gates_metrics():
    scores = score([said(), said()], [said(), said()])
    assert set(scores.metrics) == {
        "latency_p50_ms",
        "real_time_factor",
        "level_dbfs",
        "peak_dbfs",
        "clipped_ratio",
        "silence_ratio",
        "duration_ratio",
        "level_difference_db",
        "mel_cepstral_distance_db",
    }
    assert scores.metrics["real_time_factor"] == pytest.approx(0.1)
    assert scores.warnings == []
    assert scores.table()["texts"] == 2


@pytest.mark.parametrize(
    ("new", "warning"),
    [
        (said(amplitude=0.2), r"it is 6.0 dB louder than the current version"),
        (said(amplitude=0.05), r"it is 6.0 dB quieter"),
        (said(seconds=0.7), r"its audio takes 0.70 times as long"),
        (said(latency_s=0.3), r"it computes 3.0 times as long"),
        (said(amplitude=1.0), r"of its samples are at full scale"),
    ],
)
def test_what_a_person_should_look_at_is_said_with_numbers(new: Utterance, warning: str):
    found = " ".join(score([new], [said()]).warnings)
    assert warning.removeprefix("r") in found


def test_without_a_current_version_nothing_is_compared():
    scores = score([said()], [])
    assert "duration_ratio" not in scores.metrics
    assert scores.current == {}


def test_silence_is_refused_with_its_peak():
    with pytest.raises(SmokeRefused, match=r"vocoder version 2 is silent at 'hello': 16000 samples, peak 0.0000"):
        check_utterance("vocoder version 2", said(amplitude=0.0), RATE_HZ)


def test_nothing_at_all_is_refused_as_silence():
    with pytest.raises(SmokeRefused, match="0 samples"):
        check_utterance("vocoder version 2", said(seconds=0.0), RATE_HZ)


def test_another_sample_rate_is_refused_with_both():
    with pytest.raises(SmokeRefused, match="answers with 16000 Hz, and the voice has 22050"):
        check_utterance("vocoder version 2", said(), 22_050)


@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_there_are_ten_different_texts_for_languages_that_ship(language: str):
    texts = texts_for(voice_spec(language=language))
    assert len(set(texts)) == 10


def test_another_language_says_the_voices_own_text():
    assert texts_for(voice_spec(language="fr-FR", probe_text="Bonjour.")) == ("Bonjour.",)
    assert set(TEXTS) == {"en", "zh"}


def test_own_texts_are_read_one_a_line(tmp_path: Path):
    file = tmp_path / "texts.txt"
    file.write_text("one\n\n  two \n", encoding="utf-8")
    assert texts_for(voice_spec(), file) == ("one", "two")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds 0 texts"),
        (b"\xff", "UTF-8"),
        (b"x\n" * 300, "holds 300 texts"),
        (b"x" * 2000, r":1: a text of 2000"),
    ],
)
def test_a_text_file_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, message: str):
    file = tmp_path / "texts.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        texts_for(voice_spec(), file)
