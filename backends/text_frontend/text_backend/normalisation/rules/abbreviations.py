"""English abbreviations, ordinals and plain numbers; in Chinese text only between English words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from text_backend.abbreviations import ABBREVIATIONS, Place, of_place
from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern


def _cased(shorts: Iterable[str]) -> str:
    """Alternatives with a small or a capital first letter, longest first."""
    ordered = sorted(shorts, key=len, reverse=True)
    return "|".join(f"[{short[0]}{short[0].upper()}]{re.escape(short[1:])}" for short in ordered)


def _capital(shorts: Iterable[str]) -> str:
    return "|".join(sorted((short.capitalize() for short in shorts), key=len, reverse=True))


_STREETS = of_place(Place.STREET)
_NAMES = of_place(Place.NAME)
_NUMBERED = of_place(Place.NUMBER)
_WORDS_OF = of_place(Place.WORD)
_ALWAYS_STOPPED = frozenset({"no", "nos"})
_STREET = pattern(
    rf"(?<=[a-z\d])[ ]({_capital(_STREETS)})\.?(?=\s*(?:[,;:!?)\n]|\Z|\."
    r"|(?:[a-z]|in|at|and)\b|[A-Z][a-z]+,))"
)
_STREET_NAME = pattern(r"(?:\b[A-Z][a-z]+|\d(?:st|nd|rd|th)?)\Z")
_ADDRESS = pattern(
    r"(?:\d|\b(?:[Oo]n|[Aa]t|[Oo]f|[Nn]ear|[Aa]long|[Dd]own))(?:[ ][A-Z][a-z]+){1,3}\Z|\d(?:st|nd|rd|th)\Z"
)
_NEAR = 64
_TITLES = of_place(Place.TITLE)
_TITLE = pattern(
    rf"(?<!\b[Tt]he )(?<!\b[Aa] )\b({_capital(_TITLES)})\.[ ]"
    r"(?=(?:No|Who|Will|So|Do|An|You|He|Go|Well|Just|Both|Why|How|Many|Now)\b)"
)
"""A title before a name that is also a word which opens sentences: there the sentence would be cut."""
_NAME = pattern(rf"\b({_capital(_NAMES)})\.[ ](?=[A-Z])")
_NUMBER_SIGN = pattern(r"(?:(?<![\w])#|\b(?:No|Nos|no|NO)\.[ ]?)(?=\d)")
_NUMBER_SIGN_ZH = pattern(r"(?<![A-Za-z])(?:No|NO|no)\.?[ ]?(\d{1,6})(?![\d.]*\d)")
_BEFORE_NUMBER = pattern(rf"(?<!\d[ ])\b({_cased(set(_NUMBERED) - _ALWAYS_STOPPED)})\.[ ]?(?=\d|[IVXL]{{1,7}}(?![\w]))")
_WORDS = pattern(rf"(?<![\w.])({_cased(_WORDS_OF)})(?:\.(?=[ ])|(?<=[/o])(?=[ ])(?<=w/|/o)|(?<=vs)(?=[ ]))")
_ORDINAL = pattern(r"(?<![\w.])(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})(st|nd|rd|th)\b", re.IGNORECASE)
_CARDINAL = pattern(rf"(?<![\d])(?<!\d[.,])(\.\d{{1,20}}|{amounts.AMOUNT})(?![\d])")
_NTH = pattern("第[ ]?(\\d{1,12})(?![\\d.,]*\\d)")


def _street(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    name = match.group(1)
    if not _is_street(match):
        return None
    ends = match.group().endswith(".") and match.string[match.end() :].strip()[:1] in ("",)
    return f" {_STREETS[name.lower()].capitalize()}{'.' if ends else ''}"


def _is_street(match: re.Match[str]) -> bool:
    """Whether a name is before what may also be a title or a saint: "Elm Dr.", not "saw Dr. Smith"."""
    if len(ABBREVIATIONS[match.group(1).lower()]) == 1:
        return True
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    if _STREET_NAME.search(before) is None:
        return False
    following = match.string[match.end() :].lstrip(" .")[:1]
    return not following.isupper() or _ADDRESS.search(before) is not None


def _number_zh(match: re.Match[str], language: str) -> str | None:
    return numbers_zh.cardinal(match.group(1)) + "号" if language == "zh" else None


def _cardinal(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    number = amounts.plain(match.group())
    if len(number) > 1 and number[0] == "0" and number[1] != ".":
        whole, point, fraction = number.partition(".")
        return numbers_en.digits(whole) + (f" point {numbers_en.digits(fraction)}" if point else "")
    if "." not in number and len(number) > 9 and "," not in match.group():
        return numbers_en.digits(number)
    return numbers_en.decimal(number)


def _name(match: re.Match[str], language: str) -> str | None:
    return f"{_NAMES[match.group(1).lower()].capitalize()} " if language == "en" else None


def _title(match: re.Match[str], language: str) -> str | None:
    return f"{_TITLES[match.group(1).lower()].capitalize()} " if language == "en" else None


def _before_number(match: re.Match[str], language: str) -> str | None:
    return f"{_NUMBERED[match.group(1).lower()]} " if language == "en" else None


def _word(match: re.Match[str], language: str) -> str | None:
    return _WORDS_OF[match.group(1).lower()] if language == "en" else None


def _number_sign(match: re.Match[str], language: str) -> str | None:
    return "number " if language == "en" else None


def _ordinal(match: re.Match[str], language: str) -> str:
    number = amounts.plain(match.group(1))
    return numbers_en.ordinal(number) if language == "en" else f"第{numbers_zh.cardinal(number)}"


def _nth(match: re.Match[str], language: str) -> str:
    del language
    return "第" + numbers_zh.cardinal(match.group(1)).replace("两", "二")


WORDS = (
    Rule("abbreviation", _STREET, _street),
    Rule("abbreviation", _TITLE, _title),
    Rule("abbreviation", _NAME, _name),
    Rule("abbreviation", _BEFORE_NUMBER, _before_number),
    Rule("abbreviation", _WORDS, _word),
)
NUMBER_SIGNS = (Rule("number sign", _NUMBER_SIGN_ZH, _number_zh), Rule("number sign", _NUMBER_SIGN, _number_sign))
ORDINALS = (Rule("ordinal", _NTH, _nth), Rule("ordinal", _ORDINAL, _ordinal))
NUMBERS = (Rule("number", _CARDINAL, _cardinal),)
