"""Pronunciations by the rules of English spelling: ``data/english_graphemes.tsv``, tried letter by letter.

Linear, and some twenty times faster than the network of :mod:`letter_to_sound`, which is better. They read runs of
letters too long for a word, what is left once a text has shown itself to be gibberish, and the English words that no
dictionary has inside Mandarin speech, whose syllables blur the difference.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from text_backend.data import table
from text_backend.g2p.english.arpabet import CONSONANTS, VOWELS
from text_backend.g2p.english.rhythm import PRIMARY

SCHWA = "AX"
"""The vowel of "a" in "about"; ARPAbet as the dictionary writes it has AH0."""
MAX_LETTERS = 64
"""Longer runs are read in pieces, so that no rule looks far."""
_IPA = CONSONANTS | VOWELS | {SCHWA: "ə", "ER": "ɚ"}


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
def _rules() -> list[_Rule]:
    rules = []
    for row in table("english_graphemes"):
        letters, before, after, phones = (*row, "", "", "")[:4]
        sounds = () if phones == "-" else tuple(phones.split())
        rules.append(_Rule(letters, _context(before, ends=True), _context(after, ends=False), sounds))
    return rules


@lru_cache(maxsize=2048)
def _rules_for(pair: str) -> list[_Rule]:
    """The rules that may fit where the two characters of ``pair`` follow each other, in their order."""
    return [rule for rule in _rules() if rule.letters == pair[0] or rule.letters.startswith(pair)]


def phones_by_rule(letters: str) -> list[str]:
    """ARPAbet phones without stress, :data:`SCHWA` among them.

    Args:
        letters: a to z; anything else in it is skipped.
    """
    phones: list[str] = []
    for start in range(0, len(letters), MAX_LETTERS):
        phones += _piece(letters[start : start + MAX_LETTERS])
    return phones


@lru_cache(maxsize=1024)
def _piece(letters: str) -> tuple[str, ...]:
    framed = f"#{letters}#"
    phones: list[str] = []
    at = 1
    while at <= len(letters):
        for rule_letters, before, after, sounds in _rules_for(framed[at : at + 2]):
            if (
                framed.startswith(rule_letters, at)
                and (before is None or before.search(framed, 0, at))
                and (after is None or after.match(framed, at + len(rule_letters)))
            ):
                phones += sounds
                at += len(rule_letters)
                break
        else:
            at += 1
    return tuple(phones)


def read_roughly(letters: str) -> str:
    """IPA of a string of the letters a to z; anything else in it is skipped. The first full vowel is stressed."""
    sounds: list[str] = []
    stressed = False
    for phone in phones_by_rule(letters):
        stresses = not stressed and phone in VOWELS
        stressed = stressed or stresses
        sounds.append(PRIMARY + (VOWELS[phone] if stresses else _IPA[phone]) if stresses else _IPA[phone])
    return "".join(sounds)
