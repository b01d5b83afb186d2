from __future__ import annotations

import pytest
from text_backend.g2p.english import letter_to_sound
from text_backend.g2p.english.letter_rules import read_roughly
from text_backend.g2p.english.letter_to_sound import MAX_LETTERS, LetterToSound

from voxrepo_contract.errors import ConfigError


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        # what g2p_en 2.1.0 itself answers with the weights in full precision
        ("activationist", "AE2 K T IH0 V EY1 SH AH0 N IH0 S T"),
        ("kubernetes", "K AH0 B ER1 N AH0 T S"),
        ("blorp", "B L AO1 R P"),
    ],
)
def test_answers_as_the_original_does(network, word, phones):
    assert network.pronounce(word) == phones.split()


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(letter_to_sound, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(ConfigError, match="pip install --no-deps g2p-en"):
        LetterToSound()


def test_other_weights_are_refused(monkeypatch, tmp_path):
    package = tmp_path / "other_g2p"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / letter_to_sound.WEIGHTS_FILE).write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(letter_to_sound, "PACKAGE", "other_g2p")
    with pytest.raises(ConfigError, match=r"sha256 is .*, expected b8af35e4"):
        LetterToSound()


def test_every_letter_is_read_and_the_end_is_found(network):
    for letter in "abcdefghijklmnopqrstuvwxyz":
        phones = network.pronounce(letter * MAX_LETTERS)
        assert phones
        assert all(phone.isalnum() for phone in phones)


def test_the_rough_reading_skips_no_letter_and_stresses_the_first_vowel():
    assert read_roughly("strength") == "stɹˈɛŋθ"
    for letter in "abcdefghijklmnopqrstuvwxyz":
        assert read_roughly(letter)


def test_words_sound_the_same_in_any_company(network):
    words = ["blorp", "", "kubernetes", "z", "activationist", "q" * MAX_LETTERS, "frobnicator", "zorgle", "snark", "ib"]
    alone = [network.pronounce(word) for word in words]
    assert network.pronounce_all(words) == alone
    assert network.pronounce_all(words[::-1]) == alone[::-1]
    assert network.pronounce_all([]) == []
