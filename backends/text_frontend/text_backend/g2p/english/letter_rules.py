"""A rough reading of strings of letters that are no words, by a table: linear, and a hundred times faster than the
network. It serves runs of letters too long for a word, and what is left once a text has shown itself to be gibberish.
"""

from __future__ import annotations

import re

from text_backend.g2p.english.rhythm import PRIMARY

_SOUNDS = {
    "tion": "ʃən",
    "sion": "ʒən",
    "ough": "oʊ",
    "augh": "ɔː",
    "eigh": "eɪ",
    "igh": "aɪ",
    "tch": "tʃ",
    "dge": "dʒ",
    "sch": "sk",
    "ing": "ɪŋ",
    "air": "ɛɹ",
    "ear": "ɪɹ",
    "eer": "ɪɹ",
    "oor": "ɔːɹ",
    "our": "aʊɚ",
    "ai": "eɪ",
    "ay": "eɪ",
    "au": "ɔː",
    "aw": "ɔː",
    "ar": "ɑːɹ",
    "ea": "iː",
    "ee": "iː",
    "ei": "eɪ",
    "er": "ɚ",
    "eu": "juː",
    "ew": "uː",
    "ey": "i",
    "ie": "iː",
    "ir": "ɜː",
    "oa": "oʊ",
    "oi": "ɔɪ",
    "oo": "uː",
    "or": "ɔːɹ",
    "ou": "aʊ",
    "ow": "aʊ",
    "oy": "ɔɪ",
    "ue": "uː",
    "ur": "ɜː",
    "ch": "tʃ",
    "ck": "k",
    "gh": "ɡ",
    "kn": "n",
    "ng": "ŋ",
    "ph": "f",
    "qu": "kw",
    "sh": "ʃ",
    "th": "θ",
    "wh": "w",
    "wr": "ɹ",
    "a": "æ",
    "b": "b",
    "c": "k",
    "d": "d",
    "e": "ɛ",
    "f": "f",
    "g": "ɡ",
    "h": "h",
    "i": "ɪ",
    "j": "dʒ",
    "k": "k",
    "l": "l",
    "m": "m",
    "n": "n",
    "o": "ɑː",
    "p": "p",
    "q": "k",
    "r": "ɹ",
    "s": "s",
    "t": "t",
    "u": "ʌ",
    "v": "v",
    "w": "w",
    "x": "ks",
    "y": "i",
    "z": "z",
}
_SPELLINGS = re.compile("|".join(_SOUNDS))
_VOWEL = re.compile("[æɑɛɪɔʌɚɜaeiou]")


def read_roughly(letters: str) -> str:
    """IPA of a string of the letters a to z; anything else in it is skipped. The first vowel is stressed."""
    sounds = "".join(_SOUNDS[match.group()] for match in _SPELLINGS.finditer(letters))
    return _VOWEL.sub(lambda vowel: PRIMARY + vowel.group(), sounds, count=1)
