"""What one character and one text may cost."""

from __future__ import annotations

import pytest
from text_backend import workload
from text_backend.g2p.english.names import NAME_WORDS_MAX, has_short_name, sign_words

from tests.text.voices import english_front_end
from voxrepo_contract.errors import InvalidArgument

ENGLISH = english_front_end()
PHRASE = "\ufdfa"  # one letter that is called by five words


def test_no_character_says_more_words_than_the_limit():
    codes = (*range(0x3400), *range(0xA000, 0xA800), *range(0xF900, 0x10200), *range(0x1D000, 0x1D100))
    assert max(len(sign_words(chr(code))) for code in codes) == NAME_WORDS_MAX


def test_a_letter_with_a_long_name_is_counted_as_unreadable():
    assert not has_short_name(PHRASE)
    utterance = ENGLISH.run(PHRASE * 3 + " ok", 1.0, "")
    assert utterance.dropped == {"unreadable": 3}
    assert utterance.phoneme_ids.tolist() == ENGLISH.run("ok", 1.0, "").phoneme_ids.tolist()
    with pytest.raises(InvalidArgument, match="no reading for the letters"):
        ENGLISH.run(PHRASE, 1.0, "")


def test_letters_of_other_scripts_keep_their_names_without_accents():
    assert sign_words("\u03b0") == ["upsilon"]
    assert ENGLISH.run("\u03b0", 1.0, "").dropped == {}


def test_a_han_zero_is_read_as_zero():
    assert ENGLISH.run("\u3007", 1.0, "").phoneme_ids.tolist() == ENGLISH.run("zero", 1.0, "").phoneme_ids.tolist()


def test_a_text_of_too_many_phonemes_is_refused_before_they_are_laid_out(monkeypatch):
    with pytest.raises(InvalidArgument, match=r"come to more than 800000 phoneme ids, which is the limit; send it in"):
        ENGLISH.run("\u3007" * 100_000, 1.0, "")
    monkeypatch.setattr(workload, "PHONEME_IDS_MIN", 75)
    assert len(ENGLISH.run("hello", 1.0, "").phoneme_ids) < 75
    with pytest.raises(InvalidArgument, match="9 characters come to more than 75 phoneme ids"):
        ENGLISH.run("W W W W W", 1.0, "")


def test_what_fits_the_usual_limit_is_never_too_much():
    for unit in ("W", "A4", "\u3007", "½"):
        assert len(ENGLISH.run((unit * 4096)[:4096], 1.0, "").phoneme_ids) < workload.PHONEME_IDS_MIN
