from __future__ import annotations

import pytest
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.g2p.english.dictionary import Dictionary, read_dictionary
from text_backend.g2p.english.letter_to_sound import LetterToSound


@pytest.fixture(scope="session")
def dictionary() -> Dictionary:
    return read_dictionary()


@pytest.fixture(scope="session")
def network() -> LetterToSound:
    return LetterToSound()


@pytest.fixture(scope="session")
def phonemizer() -> EnglishPhonemizer:
    return EnglishPhonemizer()


@pytest.fixture(scope="session")
def read(phonemizer):
    def phonemes(text: str) -> str:
        return " ".join(clause.phonemes + clause.terminator for clause in phonemizer.phonemize([text])[0])

    return phonemes
