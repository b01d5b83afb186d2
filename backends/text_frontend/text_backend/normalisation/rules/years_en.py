"""English years that no word before them announces: "1984 was a year", "the 2008 crisis", "post-1945".

A number of four digits from 1100 to 2099 without a comma is a year unless it counts or measures something, which the
words around it tell.
"""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_PREFIXED = pattern(r"\b(pre|post|mid|early|late|circa)[-\u2013]((?:1[1-9]|20)\d\d)(?![\w/]|[.,]\d)", re.IGNORECASE)
_DECADES = pattern(r"(?<![\w.,/-])((?:1[1-9]|20)\d0)s[ ]?[-\u2013\u2014][ ]?((?:1[1-9]|20)\d0|\d0)s\b")
_SEASON = pattern(r"(?<![\w.,/:-])((?:19|20)\d\d)/((?:19|20)\d\d|\d\d)(?![\w/-]|[.,]\d)")
_EARLY = pattern(r"(?i:\b(in|since|until|before|after|year|AD|circa|of)[ ])(10[0-8]\d)(?![\w:/%]|[.,]\d|[ ][a-z]+s\b)")
_BARE = pattern(
    r"(?<![\w.,:/$€£¥#%+*=<>~^-])((?:1[1-9]|20)\d\d)(?![\w:/%°$€£¥^]|[.,]\d|[-\u2013\u2014]\w"
    r"|[ ]?[-+*/=×÷<>]|[ ]?x[ ]?\d)"
)
_COUNTING_BEFORE = re.compile(
    r"(?:\b(?:costs?|paid|pay|pays|worth|than|least|most|up to|totals?|totall?ed|total of|sum of|weigh(?:s|ed|ing)?|"
    r"number|equals?|plus|minus|times|over|nearly|almost|exactly|roughly|some|another|per|multiplied|divided by|"
    r"count of|capacity of|score of|maximum|minimum|ISO|room|flight|extension|code|dial|channel|port|"
    r"hundred|thousand|point))"
    r"[ ]\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(r"[ ]((?:[a-z]+(?:-[a-z]+)?[ ])?)([A-Za-z]+)")
_DEFINITE = re.compile(r"\b(?:the|The|this|This|that|That|every|his|her|its|their|our|my)[ ]\Z|['\u2019]s[ ]\Z")
_COUNTED = frozenset(
    {
        "people", "men", "women", "children", "feet", "percent", "hundred", "thousand", "million", "billion",
        "trillion", "square", "cubic", "of", "more", "other", "different", "additional", "extra", "fewer", "calories",
        "USD", "EUR", "GBP", "RMB", "CNY", "yuan", "yen", "won", "euro", "dollar", "pound", "mile", "meter", "metre",
        "foot", "inch", "kilometer", "kilometre", "gram", "kilogram", "hour", "minute", "second", "day", "week",
        "year", "page", "word", "step", "watt", "volt", "kg", "km", "cm", "mm", "mg", "ml", "rpm", "mph", "psi", "hp",
        "lbs", "sq"
    }
)  # fmt: skip
_SINGULAR_IN_S = frozenset(
    {
        "was", "is", "has", "does", "goes", "this", "its", "as", "us", "his", "plus", "versus", "vs", "crisis",
        "census", "bus", "less", "across", "perhaps", "always", "towards", "besides", "thus", "yes", "news", "series",
        "species", "marks", "marked", "sees", "saw", "brings", "seems", "begins", "ends", "shows", "comes", "gives",
        "takes", "remains", "belongs", "makes", "looks", "feels", "sounds", "stands", "starts", "means", "Olympics",
        "olympics", "Games"
    }
)  # fmt: skip
_CONTEXT_CHARS = 24


def counts_something(text: str, start: int, end: int, number: str) -> bool:
    """Whether the words around the number at ``start`` to ``end`` show that it counts or measures.

    Args:
        text: any text.
        start: of the number.
        end: of the number.
        number: its four digits.
    """
    before = text[max(0, start - _CONTEXT_CHARS) : start]
    if _COUNTING_BEFORE.search(before):
        return True
    after = _AFTER.match(text, end, end + 2 * _CONTEXT_CHARS)
    if after is None:
        return False
    first = (after.group(1) or after.group(2)).strip()
    if first in _COUNTED:
        return True
    if _DEFINITE.search(before) and not number.endswith("00"):
        return False
    return _is_plural(first)


def _is_plural(word: str) -> bool:
    return word.islower() and word.endswith("s") and not word.endswith(("ss", "us")) and word not in _SINGULAR_IN_S


def _bare(match: re.Match[str], language: str) -> str | None:
    number = match.group(1)
    if language != "en" or counts_something(match.string, match.start(), match.end(), number):
        return None
    return numbers_en.year(number)


def _prefixed(match: re.Match[str], language: str) -> str | None:
    return f"{match.group(1)} {numbers_en.year(match.group(2))}" if language == "en" else None


def _decades(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    spoken = [
        numbers_en.plural(numbers_en.year(decade) if len(decade) == 4 else numbers_en.cardinal(decade))
        for decade in match.groups()
    ]
    return " to ".join(spoken)


def _early(match: re.Match[str], language: str) -> str | None:
    return f"{match.group(1)} {numbers_en.year(match.group(2))}" if language == "en" else None


def _season(match: re.Match[str], language: str) -> str | None:
    """2023/24 and 1999/2000: a season, no fraction."""
    first, last = match.groups()
    if (int(first) + 1) % 100 != int(last) % 100:
        return None
    if language == "zh":
        return f"{numbers_zh.year(first)}到{numbers_zh.year(last)}"
    return f"{numbers_en.year(first)} {numbers_en.year(last) if len(last) == 4 else numbers_en.pair(last)}"


RULES = (
    Rule("year", _SEASON, _season),
    Rule("year", _PREFIXED, _prefixed),
    Rule("decade", _DECADES, _decades),
    Rule("year", _EARLY, _early),
)
BARE = (Rule("year", _BARE, _bare),)
