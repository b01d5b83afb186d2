"""Pinyin syllables as initial and final, in the symbols of voices trained on the Baker corpus.

Every syllable has an initial (``^`` where the spelling has none) and a final with its tone: 你 is ``n i3``, 玉 is
``^ v4``, 之 is ``zh iii1``, 吗 is ``m a5``. The spelling's shortcuts are undone: iu is ``iou``, ui is ``uei``, un is
``uen``, u after j, q, x is ``v``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from text_backend.data import table

_LEGAL = {(row[0], final) for row in table("syllables") for final in row[1].split()}
_INITIALS = ("zh", "ch", "sh", *"bpmfdtnlgkhjqxrzcs")
_SPELLING = re.compile(r"([a-zü]+?)(r?)([1-5])\Z")
_SHORTENED = {"iu": "iou", "ui": "uei", "un": "uen", "ue": "ve", "ü": "v", "üe": "ve", "üan": "van", "ün": "vn"}
_ZERO = {
    "yi": "i",
    "ya": "ia",
    "yo": "iou",
    "ye": "ie",
    "yai": "ai",
    "yao": "iao",
    "you": "iou",
    "yan": "ian",
    "yin": "in",
    "yang": "iang",
    "ying": "ing",
    "yong": "iong",
    "yu": "v",
    "yue": "ve",
    "yuan": "van",
    "yun": "vn",
    "wu": "u",
    "wa": "ua",
    "wo": "uo",
    "wai": "uai",
    "wei": "uei",
    "wan": "uan",
    "wen": "uen",
    "wang": "uang",
    "weng": "ueng",
    # interjections without a vowel, and one with a vowel that no other syllable has
    "n": "en",
    "ng": "en",
    "m": "en",
    "hm": "en",
    "hng": "en",
    "ê": "ei",
}


class Syllable(NamedTuple):
    """One syllable.

    Attributes:
        initial: ``^`` where there is none.
        final: without tone.
        tone: 1 to 4, 5 is the neutral tone.
        r_coloured: followed by a 儿 that is no syllable of its own.
    """

    initial: str
    final: str
    tone: int
    r_coloured: bool = False

    @property
    def symbols(self) -> list[str]:
        """Symbols in the inventory."""
        return [self.initial, f"{self.final}{self.tone}", *(["er5"] if self.r_coloured else [])]


def is_legal(initial: str, final: str) -> bool:
    """Whether Mandarin has such a syllable in some tone."""
    return (initial, final) in _LEGAL


@lru_cache(maxsize=4096)
def parse(pinyin: str) -> Syllable | None:
    """A syllable such as ``zhong1``, ``lv4``, ``lü4``, ``huar1``; ``None`` if Mandarin has no such syllable."""
    match = _SPELLING.match(pinyin.replace("u:", "ü"))
    if match is None:
        return None
    letters, r, tone = match.group(1), match.group(2), int(match.group(3))
    if letters == "e" and r:
        return Syllable("^", "er", tone)
    found = _split(letters)
    return None if found is None else Syllable(*found, tone, bool(r))


def _split(letters: str) -> tuple[str, str] | None:
    if letters in _ZERO:
        return "^", _ZERO[letters]
    initial = next((i for i in _INITIALS if letters.startswith(i)), "^")
    final = letters.removeprefix(initial) if initial != "^" else letters
    if initial in ("j", "q", "x") and final[:1] == "u":
        final = "v" + final[1:]
    elif final == "i" and initial in ("z", "c", "s"):
        final = "ii"
    elif final == "i" and initial in ("zh", "ch", "sh", "r"):
        final = "iii"
    final = _SHORTENED.get(final, final)
    return (initial, final) if is_legal(initial, final) else _rare(initial, final)


def _rare(initial: str, final: str) -> tuple[str, str] | None:
    """Syllables of dialect and onomatopoeia, which the spelling allows."""
    rare = {("b", "e"), ("p", "e"), ("t", "en"), ("l", "en"), ("d", "en"), ("n", "uen"), ("r", "a"), ("b", "iang")}
    rare |= {("p", "ia"), ("k", "iou"), ("d", "uang"), ("f", "iao"), ("c", "ei"), ("ch", "ua"), ("sh", "ong")}
    return (initial, final) if (initial, final) in rare else None
