"""English words in ARPAbet phones, by spelling: a list for words that mislead, rules for the rest.

Made for English words inside Mandarin speech, where the sounds are approximated by Mandarin syllables anyway. An
English voice has a phonemizer of its own.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from text_backend.data import table

VOWELS = frozenset(["AA", "AE", "AH", "AO", "AW", "AX", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"])
_WORDS = {row[0]: tuple(row[1].split()) for row in table("english_words")}
_UNFOLDED = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ð": "th", "þ": "th", "đ": "d", "ł": "l", "ı": "i", "ŋ": "ng"}
_VOWEL = re.compile("[aeiou]")
_MAX_WORD_LETTERS = 64


class _Rule(NamedTuple):
    letters: str
    before: re.Pattern[str] | None
    after: re.Pattern[str] | None
    phones: tuple[str, ...]


def _context(written: str, *, ends: bool) -> re.Pattern[str] | None:
    if not written:
        return None
    regex = written.replace("V", "[aeiouy]").replace("C", "[bcdfghjklmnpqrstvwxz]")
    return re.compile(f"(?:{regex})\\Z" if ends else regex)


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[_Rule]]:
    by_letter: dict[str, list[_Rule]] = {}
    for row in table("english_graphemes"):
        letters, before, after, phones = (*row, "", "", "")[:4]
        sounds = () if phones == "-" else tuple(phones.split())
        rule = _Rule(letters, _context(before, ends=True), _context(after, ends=False), sounds)
        by_letter.setdefault(letters[0], []).append(rule)
    return by_letter


def fold(word: str) -> str:
    """Lower case without accents: ``Ä`` is ``a``, ``ß`` is ``ss``."""
    lower = word.lower()
    if lower.isascii():
        return lower
    unfolded = "".join(_UNFOLDED.get(character, character) for character in lower)
    decomposed = unicodedata.normalize("NFD", unfolded)
    return "".join(character for character in decomposed if "a" <= character <= "z" or character == "'")


def is_pronounceable(word: str) -> bool:
    """Whether a word can be said as one, and need not be spelled."""
    folded = fold(word)
    if folded in _WORDS:
        return True
    return len(folded) > 1 and (_VOWEL.search(folded) is not None or ("y" in folded and len(folded) > 3))


def is_known(word: str) -> bool:
    """Whether the word is in the list."""
    return fold(word) in _WORDS


@lru_cache(maxsize=16384)
def phones_of(word: str) -> tuple[str, ...]:
    """ARPAbet phones; a stressed vowel has a 1 after it.

    Args:
        word: letters and apostrophes; accents are passed over.
    """
    folded = fold(word).replace("'", "")
    if folded in _WORDS:
        return _WORDS[folded]
    if len(folded) > _MAX_WORD_LETTERS:
        # runs of letters that are no word: in pieces, so that a rule never looks far
        return tuple(
            phone
            for start in range(0, len(folded), _MAX_WORD_LETTERS)
            for phone in phones_of(folded[start : start + _MAX_WORD_LETTERS])
        )
    return _stressed(_by_rules(folded))


def _by_rules(word: str) -> list[str]:
    framed = f"#{word}#"
    phones: list[str] = []
    at = 1
    while at <= len(word):
        for rule in _rules().get(framed[at], ()):
            if (
                framed.startswith(rule.letters, at)
                and (rule.before is None or rule.before.search(framed[:at]))
                and (rule.after is None or rule.after.match(framed, at + len(rule.letters)))
            ):
                phones += rule.phones
                at += len(rule.letters)
                break
        else:
            at += 1
    return phones


def _stressed(phones: list[str]) -> tuple[str, ...]:
    for index, phone in enumerate(phones):
        if phone in VOWELS and phone != "AX":
            return (*phones[:index], phone + "1", *phones[index + 1 :])
    return tuple(phones)
