"""Latin words and letters in Mandarin syllables, so that a Mandarin voice can say them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from text_backend.data import table
from text_backend.g2p import syllables
from text_backend.g2p.english.pronunciation import plain_letters
from text_backend.g2p.english_sounds import VOWELS, is_known, is_pronounceable, phones_of
from text_backend.g2p.syllables import Syllable

Pronounce = Callable[[str], Sequence[str]]
"""A word's ARPAbet phones; the hook for a better source than the spelling rules."""

_NAMES = {row[0]: row[1].split() for row in table("letters")}
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z'\u2019\u00df-\u00f6\u00f8-\u00ff]+|[^A-Za-z]+|[A-Z]")
_EPENTHETIC_TONE = 5


class _Consonant(NamedTuple):
    initials: tuple[str, ...]
    alone: str


class _Vowel(NamedTuple):
    finals: tuple[str, ...]
    with_n: tuple[str, ...]
    with_ng: tuple[str, ...]


def _tables() -> tuple[dict[str, _Consonant], dict[str, _Vowel]]:
    consonants: dict[str, _Consonant] = {}
    vowels: dict[str, _Vowel] = {}
    for row in table("english_sounds"):
        if row[1] == "C":
            consonants[row[0]] = _Consonant(tuple(row[2].split()), row[3])
        else:
            finals, with_n, with_ng = (() if cell == "-" else tuple(cell.split()) for cell in row[2:5])
            vowels[row[0]] = _Vowel(finals, with_n, with_ng)
    return consonants, vowels


_CONSONANTS, _VOWELS = _tables()
# after w and y the final takes the glide in
_W_FINALS = {
    "a": "ua", "ai": "uai", "an": "uan", "ang": "uang", "ei": "uei", "en": "uen", "eng": "ueng", "o": "uo", "uo": "uo",
    "ou": "uo", "i": "uei", "in": "uen", "ing": "uen", "u": "u", "e": "uo", "ao": "uo", "ong": "ueng", "er": "uo",
    "uei": "uei", "uen": "uen", "ie": "uei", "ian": "uen",
}  # fmt: skip
_Y_FINALS = {
    "a": "ia", "ai": "ie", "an": "ian", "ang": "iang", "ao": "iao", "e": "ie", "ei": "ie", "en": "in", "eng": "ing",
    "ou": "iou", "u": "iou", "ong": "iong", "i": "i", "in": "in", "ing": "ing", "o": "iou", "uo": "iou", "er": "ie",
    "uen": "vn", "ie": "ie", "ian": "ian", "iou": "iou",
}  # fmt: skip


def read_latin(word: str, pronounce: Pronounce = phones_of) -> list[Syllable]:
    """Syllables for a Latin word: letters by name for UPS, CKD and xyz; the sounds for iPhone, hello, NASA.

    Args:
        word: Latin letters, accents and apostrophes.
        pronounce: phones of a word that is not spelled.
    """
    if is_known(word):
        return say_word(word, pronounce)
    found: list[Syllable] = []
    for part in _CAMEL.findall(word):
        if not plain_letters(part).strip("'"):
            continue
        spelled = not is_known(part) if part.isupper() else not is_pronounceable(part)
        found += spell(part) if spelled else say_word(part, pronounce)
    return found


def spell(letters: str) -> list[Syllable]:
    """The names of letters."""
    return [_parsed(name) for letter in plain_letters(letters).upper() for name in _NAMES.get(letter, ())]


def say_word(word: str, pronounce: Pronounce = phones_of) -> list[Syllable]:
    """The sounds of an English word."""
    return list(_syllables(tuple(pronounce(word))))


def _parsed(pinyin: str) -> Syllable:
    syllable = syllables.parse(pinyin)
    if syllable is None:
        raise ValueError(f"{pinyin!r} is no Mandarin syllable")
    return syllable


@lru_cache(maxsize=2048)
def _syllables(phones: tuple[str, ...]) -> tuple[Syllable, ...]:
    found: list[Syllable] = []
    last_vowel = max((i for i, phone in enumerate(phones) if phone.rstrip("1") in VOWELS), default=-1)
    at = 0
    while at < len(phones):
        onset = phones[at] if phones[at] in _CONSONANTS else ""
        nucleus = at + (1 if onset else 0)
        if nucleus >= len(phones) or phones[nucleus].rstrip("1") not in _VOWELS:
            found.append(_alone(onset))
            at += 1
            continue
        vowel = phones[nucleus].rstrip("1")
        stressed = phones[nucleus].endswith("1")
        tone = (4 if nucleus == last_vowel else 1) if stressed else (_EPENTHETIC_TONE if vowel == "AX" else 4)
        coda = _nasal_coda(phones, nucleus + 1)
        finals = _VOWELS[vowel].with_n if coda == "N" else _VOWELS[vowel].with_ng if coda else ()
        at = nucleus + 1
        if finals:
            at += 1
        else:
            finals = _VOWELS[vowel].finals
        found.append(_joined(onset, finals, tone))
        if vowel == "OY":
            found.append(Syllable("^", "i", _EPENTHETIC_TONE))
        if at < len(phones) and phones[at] == "R" and not _vowel_at(phones, at + 1):
            if vowel != "ER":
                found.append(Syllable("^", "er", _EPENTHETIC_TONE))
            at += 1
    return tuple(found)


def _nasal_coda(phones: tuple[str, ...], at: int) -> str:
    """A nasal that closes the syllable; before a vowel it opens the next one."""
    if at < len(phones) and phones[at] in ("N", "NG") and (phones[at] == "NG" or not _vowel_at(phones, at + 1)):
        return phones[at]
    return ""


def _vowel_at(phones: tuple[str, ...], at: int) -> bool:
    return at < len(phones) and phones[at].rstrip("1") in _VOWELS


def _alone(phone: str) -> Syllable:
    return _parsed(f"{_CONSONANTS[phone].alone}{_EPENTHETIC_TONE}")


def _joined(onset: str, finals: tuple[str, ...], tone: int) -> Syllable:
    initials = _CONSONANTS[onset].initials if onset else ("^",)
    for final in finals:
        for initial in initials:
            if initial == "^w" and final in _W_FINALS:
                return Syllable("^", _W_FINALS[final], tone)
            if initial == "^y" and final in _Y_FINALS:
                return Syllable("^", _Y_FINALS[final], tone)
            if syllables.is_legal(initial, final):
                return Syllable(initial, final, tone)
    # every consonant goes with some final of every vowel; the table is checked by a test
    raise ValueError(f"english_sounds.tsv has no Mandarin syllable for {onset} {finals}")
