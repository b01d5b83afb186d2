"""Words made of listed ones: inflected, prefixed, compounded, or in British spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

Find = Callable[[str], Sequence[str]]
"""The pronunciation of a listed word, empty if it is not listed."""

_SIBILANTS = frozenset({"S", "Z", "SH", "ZH", "CH", "JH"})
_VOICELESS = frozenset({"P", "T", "K", "F", "TH"})
_PART_MIN_LETTERS = 3
_COMPOUND_MIN_LETTERS = 7
_MANY_PARTS_LETTERS = 24

_SUFFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ing", ("IH0", "NG")),
    ("in'", ("IH0", "N")),
    ("ingly", ("IH0", "NG", "L", "IY0")),
    ("er", ("ER0",)),
    ("ers", ("ER0", "Z")),
    ("est", ("AH0", "S", "T")),
    ("ly", ("L", "IY0")),
    ("ness", ("N", "AH0", "S")),
    ("less", ("L", "AH0", "S")),
    ("ful", ("F", "AH0", "L")),
    ("fully", ("F", "AH0", "L", "IY0")),
    ("able", ("AH0", "B", "AH0", "L")),
    ("ment", ("M", "AH0", "N", "T")),
    ("ments", ("M", "AH0", "N", "T", "S")),
    ("ship", ("SH", "IH0", "P")),
    ("hood", ("HH", "UH2", "D")),
    ("ish", ("IH0", "SH")),
    ("ism", ("IH2", "Z", "AH0", "M")),
    ("ist", ("IH0", "S", "T")),
    ("ists", ("IH0", "S", "T", "S")),
    ("ize", ("AY2", "Z")),
    ("y", ("IY0",)),
)
_PREFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("un", ("AH0", "N")),
    ("re", ("R", "IY2")),
    ("non", ("N", "AA2", "N")),
    ("dis", ("D", "IH0", "S")),
    ("mis", ("M", "IH0", "S")),
    ("pre", ("P", "R", "IY2")),
    ("co", ("K", "OW2")),
    ("de", ("D", "IY2")),
    ("anti", ("AE2", "N", "T", "IY0")),
    ("over", ("OW2", "V", "ER0")),
    ("under", ("AH2", "N", "D", "ER0")),
    ("inter", ("IH2", "N", "T", "ER0")),
    ("super", ("S", "UW2", "P", "ER0")),
    ("sub", ("S", "AH2", "B")),
    ("micro", ("M", "AY2", "K", "R", "OW0")),
    ("multi", ("M", "AH2", "L", "T", "IY0")),
    ("out", ("AW2", "T")),
)
_BRITISH: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"is(e[ds]?|ers?|ing|ations?|ational)\Z"), r"iz\1"),
    (re.compile(r"ys(e[ds]?|ers?|ing)\Z"), r"yz\1"),
    (re.compile(r"our(s|ed|ing|able|ful|ite|ites|less|al)?\Z"), r"or\1"),
    (re.compile(r"([bt])re(s|d)?\Z"), r"\1er\2"),
    (re.compile(r"ll(ed|ing|ers?)\Z"), r"l\1"),
    (re.compile(r"ence(s)?\Z"), r"ense\1"),
    (re.compile(r"ogue(s)?\Z"), r"og\1"),
    (re.compile(r"amme(s)?\Z"), r"am\1"),
    (re.compile(r"(?:ae|oe)"), "e"),
)


def derive(word: str, find: Find) -> list[str]:
    """ARPAbet phones of ``word`` (lower case letters and apostrophes) from listed parts, empty if there are none.

    Time is linear in the word's length for any ``word``: compounds are looked for in words of up to 24 letters only.
    """
    for way in (_possessive, _plural, _past, _suffixed, _british, _prefixed, _compound):
        phones = way(word, find)
        if phones:
            return phones
    return []


def with_s(phones: Sequence[str]) -> list[str]:
    """``phones`` with the ending of a plural or a possessive."""
    if phones[-1] in _SIBILANTS:
        return [*phones, "IH0", "Z"]
    return [*phones, "S" if phones[-1] in _VOICELESS else "Z"]


def _possessive(word: str, find: Find) -> list[str]:
    if word.endswith("'s"):
        base = find(word[:-2]) or derive(word[:-2], find)
        return with_s(base) if base else []
    return list(find(word[:-1]) or derive(word[:-1], find)) if word.endswith("'") else []


def _plural(word: str, find: Find) -> list[str]:
    if not word.endswith("s") or word.endswith("ss") or len(word) <= _PART_MIN_LETTERS:
        return []
    bases = [word[:-1]]
    if word.endswith("es"):
        bases.append(word[:-2])
    if word.endswith("ies"):
        bases.append(word[:-3] + "y")
    for base in bases:
        phones = find(base) or (derive(base, find) if base == word[:-1] else [])
        if phones:
            return with_s(phones)
    return []


def _past(word: str, find: Find) -> list[str]:
    if not word.endswith("ed"):
        return []
    for base in _stems(word[:-2], "ed"):
        phones = find(base)
        if phones:
            if phones[-1] in ("T", "D"):
                return [*phones, "IH0", "D"]
            return [*phones, "T" if phones[-1] in _VOICELESS | {"S", "SH", "CH"} else "D"]
    return []


def _suffixed(word: str, find: Find) -> list[str]:
    for suffix, ending in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _PART_MIN_LETTERS:
            for base in _stems(word[: -len(suffix)], suffix):
                phones = find(base)
                if phones:
                    return [*phones, *ending]
    return []


def _stems(rest: str, suffix: str) -> Iterator[str]:
    """What may have been before an ending: "hop-ed" hope, "hopp-ed" hop, "happi-ness" happy, "bad-ly" bad."""
    if suffix[0] in "aeiouy":
        yield rest + "e"
    yield rest
    if len(rest) > _PART_MIN_LETTERS and rest[-1] == rest[-2]:
        yield rest[:-1]
    if rest.endswith("i"):
        yield rest[:-1] + "y"


def _british(word: str, find: Find) -> list[str]:
    for pattern, american in _BRITISH:
        respelled = pattern.sub(american, word)
        if respelled != word:
            phones = find(respelled) or _past(respelled, find) or _suffixed(respelled, find)
            if phones:
                return list(phones)
    return []


def _prefixed(word: str, find: Find) -> list[str]:
    for prefix, beginning in _PREFIXES:
        rest = word[len(prefix) :]
        if word.startswith(prefix) and len(rest) > _PART_MIN_LETTERS:
            phones = find(rest) or _plural(rest, find) or _past(rest, find) or _suffixed(rest, find)
            if phones:
                return [*beginning, *phones]
    return []


def _compound(word: str, find: Find) -> list[str]:
    if not _COMPOUND_MIN_LETTERS <= len(word) <= _MANY_PARTS_LETTERS or "'" in word:
        return []
    middle = len(word) // 2
    places = range(_PART_MIN_LETTERS, len(word) - _PART_MIN_LETTERS + 1)
    for place in sorted(places, key=lambda place: abs(place - middle)):
        first, second = find(word[:place]), find(word[place:])
        if first and second:
            return [*first, *(phone.replace("1", "2") for phone in second)]
    return []
