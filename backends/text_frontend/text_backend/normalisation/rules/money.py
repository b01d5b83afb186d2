"""Sums of money with a sign or a code."""

from __future__ import annotations

import re

from text_backend.data import table
from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern

_CURRENCIES = {row[0]: row[1:] for row in table("currencies")}
_SIGNS = "|".join(re.escape(sign) for sign in sorted(_CURRENCIES, key=len, reverse=True))
_CODES = "|".join(code for code in _CURRENCIES if code.isalpha())
_SCALE = (
    r"(?:[ ]?(千万|百万|十万|千亿|百亿|十亿|万亿|万|亿|trillion|billion|million|thousand|hundred|bn|mn|[kKmMbB])"
    r"(?![A-Za-z]))?"
)
_BEFORE = pattern(
    rf"(?<![A-Za-z])(-?)({_SIGNS})[ ]?({amounts.AMOUNT})(?:{amounts.RANGE_SIGN}(?:{_SIGNS})?({amounts.AMOUNT}))?"
    rf"{_SCALE}(?![\d])(?:[ ]?(?:元|dollars?|USD|yuan)(?![A-Za-z]))?"
)
_AFTER = pattern(rf"(?<![\w.,$])({amounts.AMOUNT}){_SCALE}[ ]?(€|£|₩|{_CODES})(?![A-Za-z])")
_ATTRIBUTE = pattern(
    r"[ -](?:deal|bill|note|coin|house|home|contract|fund|fine|grant|loan|prize|project|plan|investment|budget|bond|"
    r"company|business|industry|market|round|offer|bid|settlement|lawsuit|payment|acquisition|purchase|check|gift|reward|bonus|"
    r"donation|debt|mortgage|ticket|question)s?\b"
)
_SCALES = {
    "k": ("千", "thousand"),
    "K": ("千", "thousand"),
    "thousand": ("千", "thousand"),
    "hundred": ("百", "hundred"),
    "M": ("百万", "million"),
    "m": ("百万", "million"),
    "b": ("十亿", "billion"),
    "mn": ("百万", "million"),
    "million": ("百万", "million"),
    "B": ("十亿", "billion"),
    "bn": ("十亿", "billion"),
    "billion": ("十亿", "billion"),
    "trillion": ("万亿", "trillion"),
}
_HAN_SCALES = {"千": "thousand", "百万": "million", "十亿": "billion", "万亿": "trillion"}


def _before(match: re.Match[str], language: str) -> str:
    minus, sign, low, high, scale = match.groups()
    minus = {"zh": "负", "en": "minus "}[language] if minus else ""
    attribute = language == "en" and _ATTRIBUTE.match(match.string, match.end()) is not None
    spoken = _sum(sign, high or low, scale, language, attribute=attribute)
    if high:
        to = "到" if language == "zh" else " to "
        if language == "zh":
            low_spoken = numbers_zh.decimal(amounts.trimmed(low))
        else:
            low_spoken = numbers_en.decimal(amounts.plain(low))
        spoken = low_spoken + to + spoken
    return minus + spoken


def _after(match: re.Match[str], language: str) -> str:
    return _sum(match.group(3), match.group(1), match.group(2), language)


def _sum(sign: str, amount: str, scale: str | None, language: str, *, attribute: bool = False) -> str:
    """A sum; as an ``attribute`` ("a $5 bill") it is in the singular."""
    name, one, many, cent, cents = _CURRENCIES[sign]
    many = one if attribute else many
    if language == "zh":
        return numbers_zh.decimal(amounts.trimmed(amount)) + _zh_scale(scale) + name
    number = amounts.plain(amount)
    if scale:
        return f"{numbers_en.decimal(number)} {_en_scale(scale)} {many}"
    whole, _, fraction = number.partition(".")
    if len(fraction) != 2 or int(fraction) == 0:
        number = whole if fraction and not int(fraction) else number
        return f"{numbers_en.decimal(number)} {one if number == '1' else many}"
    small = f"{numbers_en.cardinal(fraction)} {cent if fraction == '01' else cents}"
    if not int(whole):
        return small
    return f"{numbers_en.cardinal(whole)} {one if whole == '1' else many} and {small}"


def _zh_scale(scale: str | None) -> str:
    if not scale:
        return ""
    return _SCALES[scale][0] if scale in _SCALES else scale


def _en_scale(scale: str) -> str:
    if scale in _SCALES:
        return _SCALES[scale][1]
    return _HAN_SCALES.get(scale, scale)


RULES = (Rule("money", _BEFORE, _before), Rule("money", _AFTER, _after))
