"""English words in ARPAbet phones for Mandarin speech, which approximates them by its own syllables.

From what the English voices read by: their preferred pronunciations, their dictionary, the rules of spelling. Not by
their network, whose care is lost in Mandarin syllables and whose package a Mandarin voice need not have.
"""

from __future__ import annotations

import re
from functools import lru_cache

from text_backend.g2p.english.arpabet import VOWELS as _FULL_VOWELS
from text_backend.g2p.english.dictionary import Dictionary, read_dictionary
from text_backend.g2p.english.letter_rules import SCHWA, phones_by_rule
from text_backend.g2p.english.names import LETTERS
from text_backend.g2p.english.preferred import PREFERRED
from text_backend.g2p.english.pronunciation import plain_letters

VOWELS = frozenset([*_FULL_VOWELS, SCHWA])
_VOWEL_LETTER = re.compile("[aeiou]")
_LONGEST_ABBREVIATION = 3
_SHORT_WORDS = frozenset(
    ["THE", "AND", "FOR", "NOT", "YOU", "ARE", "ALL", "NEW", "YES", "OUT", "OFF", "HOW", "WHY", "WHO"]
)
"""Words that are no abbreviation in capitals either; other short runs of capitals are taken for one."""


@lru_cache(maxsize=1)
def _dictionary() -> Dictionary:
    return read_dictionary()


@lru_cache(maxsize=4096)
def _listed(spelling: str) -> tuple[str, ...]:
    if spelling in PREFERRED:
        return tuple(PREFERRED[spelling].split())
    found = _dictionary().find(spelling) or _dictionary().find(spelling.strip("'"))
    return tuple(found[0]) if found else ()


def _is_name_of_letters(spelling: str) -> bool:
    """Whether a listed word is said by its letters: "VIP", "OK"."""
    names = [phone for letter in spelling for phone in LETTERS.get(letter, "").split()]
    return [phone.rstrip("012") for phone in _listed(spelling)] == [phone.rstrip("012") for phone in names]


def is_known(word: str) -> bool:
    """Whether ``word`` is listed and said as a word, not by its letters."""
    spelling = plain_letters(word)
    if not _listed(spelling) or _is_name_of_letters(spelling):
        return False
    if word.isupper():
        return len(spelling) > _LONGEST_ABBREVIATION or word in _SHORT_WORDS
    return len(spelling) > 1 or word == "a"


def is_pronounceable(word: str) -> bool:
    """Whether a word that is not written in capitals can be said as one, and need not be spelled."""
    spelling = plain_letters(word)
    if _listed(spelling):
        return is_known(word)
    return len(spelling) > 1 and (_VOWEL_LETTER.search(spelling) is not None or ("y" in spelling and len(spelling) > 3))


@lru_cache(maxsize=4096)
def phones_of(word: str) -> tuple[str, ...]:
    """ARPAbet phones; a stressed vowel has a 1 after it, an unstressed none, the reduced one is ``AX``.

    Args:
        word: letters and apostrophes; accents are passed over.
    """
    spelling = plain_letters(word)
    listed = _listed(spelling)
    if listed:
        return tuple(SCHWA if phone == "AH0" else phone.rstrip("02") for phone in listed)
    return _stressed(phones_by_rule(spelling.replace("'", "")))


def _stressed(phones: list[str]) -> tuple[str, ...]:
    for index, phone in enumerate(phones):
        if phone in VOWELS and phone != SCHWA:
            return (*phones[:index], phone + "1", *phones[index + 1 :])
    return tuple(phones)
