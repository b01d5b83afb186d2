"""How single letters and signs are called, in ARPAbet and in words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from text_backend.normalisation import numbers_en

LETTERS: dict[str, str] = {
    "a": "EY1",
    "b": "B IY1",
    "c": "S IY1",
    "d": "D IY1",
    "e": "IY1",
    "f": "EH1 F",
    "g": "JH IY1",
    "h": "EY1 CH",
    "i": "AY1",
    "j": "JH EY1",
    "k": "K EY1",
    "l": "EH1 L",
    "m": "EH1 M",
    "n": "EH1 N",
    "o": "OW1",
    "p": "P IY1",
    "q": "K Y UW1",
    "r": "AA1 R",
    "s": "EH1 S",
    "t": "T IY1",
    "u": "Y UW1",
    "v": "V IY1",
    "w": "D AH1 B AH0 L Y UW0",
    "x": "EH1 K S",
    "y": "W AY1",
    "z": "Z IY1",
}

SIGNS: dict[str, str] = {
    "&": "and",
    "%": "percent",
    "@": "at",
    "+": "plus",
    "=": "equals",
    "#": "hash",
    "/": "slash",
    "\\": "backslash",
    "*": "star",
    "_": "underscore",
    "^": "caret",
    "~": "tilde",
    "|": "bar",
    "<": "less than",
    ">": "greater than",
    "$": "dollar",
    "€": "euro",
    "£": "pound",
    "¥": "yen",
    "¢": "cent",
    "°": "degrees",
    "§": "section",
    "©": "copyright",
    "®": "registered",
    "™": "trademark",
    "×": "times",
    "÷": "divided by",
    "±": "plus or minus",
    "−": "minus",
    "≈": "approximately",
    "≠": "not equal to",
    "≤": "at most",
    "≥": "at least",
    "→": "to",
    "µ": "micro",
    "½": "one half",
    "¼": "one quarter",
    "¾": "three quarters",
    "²": "squared",
    "³": "cubed",
    "\u3007": "zero",
}

NAME_WORDS_MAX = 4
"""Words that one character may say; what is called by more ("Arabic ligature sallallahou alayhe wasallam") is not read.
A text of such characters would say a hundred times what it writes."""

_SILENT = frozenset("\"'`¡¿•·⁃‖・")
_QUOTES_AND_BRACKETS = frozenset({"Ps", "Pe", "Pi", "Pf"})

_NAME_PART = re.compile("[a-z]+|[0-9]")
_DIGITS = {digit: numbers_en.digits(digit) for digit in "0123456789"}
_CASES = ("SMALL LETTER", "CAPITAL LETTER", "LETTER", "SIGN", "SYMBOL", "SYLLABLE", "DIGIT", "MODIFIER")


def is_silent(sign: str) -> bool:
    """Whether ``sign`` is a quote, a bracket or a bullet: heard in the tune of a sentence at most."""
    return sign in _SILENT or unicodedata.category(sign) in _QUOTES_AND_BRACKETS


def is_latin(letter: str) -> bool:
    """Whether ``letter`` is read within a word: a to z with or without marks, or an apostrophe."""
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN") or bool(unicodedata.combining(letter))


def sign_words(sign: str) -> list[str]:
    """Words for a sign or a letter of another script: its name, in the end its name in Unicode.

    Marks that belong to the character before have none, unless they are vowels; accents are not told ("alpha with
    tonos"). Of a letter's name at most :data:`NAME_WORDS_MAX` words are said, of a sign that has more none.
    """
    words = _name_words(sign)
    return words if len(words) <= NAME_WORDS_MAX else words[:NAME_WORDS_MAX] if sign.isalnum() else []


def has_short_name(letter: str) -> bool:
    """Whether ``letter`` has a name of at most :data:`NAME_WORDS_MAX` words."""
    return 0 < len(_name_words(letter)) <= NAME_WORDS_MAX


@lru_cache(maxsize=4096)
def _name_words(sign: str) -> list[str]:
    known = SIGNS.get(sign)
    if known is not None:
        return known.split()
    name = unicodedata.name(sign, "symbol").partition(" WITH ")[0]
    if unicodedata.category(sign).startswith("M") and "VOWEL SIGN" not in name:
        return []
    for case in _CASES:
        _, found, letter = name.partition(f" {case} ")
        if found:
            name = letter
            break
    return [_DIGITS.get(part, part) for part in _NAME_PART.findall(name.lower())]
