"""Which letter of a word each of its phones is spelled by.

What an unstressed English vowel sounds like hangs on its letter ("rapid", "sofa"), which a pronunciation in ARPAbet
does not tell. The letters are found by the cheapest alignment of spelling and phones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

VOWEL_LETTERS = frozenset("aeiouy")

# letters that may spell each phone of ARPAbet
_SPELLINGS = {
    "AA": "aoeuh",
    "AE": "aei",
    "AH": "aeiouy",
    "AO": "aouw",
    "AW": "ouaw",
    "AY": "iyeau",
    "B": "b",
    "CH": "ct",
    "D": "dt",
    "DH": "t",
    "EH": "eaiuo",
    "ER": "eioaruy",
    "EY": "aeiy",
    "F": "fpg",
    "G": "gx",
    "HH": "hwjx",
    "IH": "iyeaou",
    "IY": "eiyao",
    "JH": "jgd",
    "K": "ckqxg",
    "L": "l",
    "M": "m",
    "N": "nkg",
    "NG": "n",
    "OW": "oaeuw",
    "OY": "oiuy",
    "P": "p",
    "R": "rw",
    "S": "scztx",
    "SH": "sctx",
    "T": "tdp",
    "TH": "t",
    "UH": "uoe",
    "UW": "uoew",
    "V": "vfw",
    "W": "wuoq",
    "Y": "yjiue",
    "Z": "zsx",
    "ZH": "szgj",
}

_SILENT = 0.7
_OFTEN_SILENT = 0.5
_SECOND_OF_TWO_VOWELS = 0.3
_DOUBLED = 0.2
_UNSPELLED = 1.0
_MISSPELLED = 1.2
_WRONG_KIND = 2.0


@dataclass
class Phone:
    """One phone of a word.

    Attributes:
        name: in ARPAbet, without the stress digit.
        stress: 1 primary, 2 secondary, 0 none; -1 for a consonant.
        at: index of the letter that spells it, -1 if none does.
        letter: that letter, empty if none does.
    """

    name: str
    stress: int
    at: int = -1
    letter: str = ""

    @property
    def is_vowel(self) -> bool:
        """Whether this is the core of a syllable."""
        return self.stress >= 0


def spelled_phones(word: str, arpabet: Sequence[str]) -> list[Phone]:
    """``arpabet`` (``["B", "AH1", "T"]``) with the letter of ``word`` (lower case) that each phone is spelled by.

    Takes time in the product of both lengths.
    """
    phones = [Phone(symbol[:-1], int(symbol[-1])) if symbol[-1].isdigit() else Phone(symbol, -1) for symbol in arpabet]
    steps = _alignment(word, phones)
    row, column = len(phones), len(word)
    while row or column:
        step = steps[row][column]
        if step != _SKIP_LETTER:
            row -= 1
        if step != _SKIP_PHONE:
            column -= 1
        if step == _MATCH:
            phones[row].at, phones[row].letter = column, word[column]
    return phones


_SKIP_LETTER, _SKIP_PHONE, _MATCH = 1, 2, 3


def _alignment(word: str, phones: Sequence[Phone]) -> list[list[int]]:
    silent = [_silence(word, index) for index in range(len(word))]
    costs = [[0.0] * (len(word) + 1) for _ in range(len(phones) + 1)]
    steps = [[_SKIP_LETTER] * (len(word) + 1) for _ in range(len(phones) + 1)]
    for column in range(1, len(word) + 1):
        costs[0][column] = costs[0][column - 1] + silent[column - 1]
    for row, phone in enumerate(phones, start=1):
        above, here, step = costs[row - 1], costs[row], steps[row]
        spellings = _SPELLINGS[phone.name]
        here[0], step[0] = above[0] + _UNSPELLED, _SKIP_PHONE
        for column, letter in enumerate(word, start=1):
            best, way = here[column - 1] + silent[column - 1], _SKIP_LETTER
            skipped = above[column] + _UNSPELLED
            if skipped < best:
                best, way = skipped, _SKIP_PHONE
            matched = above[column - 1]
            if letter not in spellings:
                matched += _MISSPELLED if (letter in VOWEL_LETTERS) == phone.is_vowel else _WRONG_KIND
            if matched <= best:
                best, way = matched, _MATCH
            here[column], step[column] = best, way
    return steps


def _silence(word: str, index: int) -> float:
    """What it costs that the letter at ``index`` has no sound of its own."""
    letter, before = word[index], word[index - 1] if index else ""
    if letter == before:
        return _DOUBLED
    if letter in VOWEL_LETTERS and before in VOWEL_LETTERS and before:
        return _SECOND_OF_TWO_VOWELS
    return _OFTEN_SILENT if letter in "eughwk'" else _SILENT
