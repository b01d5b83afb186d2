"""One unit for each of another, in any pairing: 5mg/kg, 0.5mol/L, 5℃/min, 8000元/㎡; and two measures: 170cm/60kg.

Pairs that are named otherwise than part by part (km/h, mg/L) are in the table of units and read by :mod:`units`.
"""

from __future__ import annotations

import re

from text_backend.data import table
from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import HAN, Rule, pattern

_UNITS = {row[0]: row[1:] for row in table("units")}
_SIMPLE = "|".join(re.escape(name) for name in sorted(_UNITS, key=len, reverse=True) if "/" not in name)
_END = "(?![A-Za-z0-9\u00b2\u00b3/])"
_RATE = pattern(
    rf"(?<![\w.,/:])({amounts.AMOUNT})(?:({amounts.RANGE_SIGN})({amounts.AMOUNT}))?[ \t]?({_SIMPLE})/({_SIMPLE}){_END}"
)
_HAN_RATE = pattern(rf"(?<=[{HAN}])/({_SIMPLE}){_END}")
_COUNTED_BEFORE = re.compile("[\\d元角分人户个块件株台辆只头亩家次颗粒棵吨斤克升页字步瓦度倍份万亿千百]\\Z")
_UNIT_BEFORE = re.compile(rf"\d[ ]?(?:{_SIMPLE})\Z", re.ASCII)
_LONGEST_UNIT_CHARS = 16
_TWO_MEASURES = pattern(rf"(?<=[A-Za-z\u00b0\u2103\u2109\u03a9\u33a1])/(?={amounts.AMOUNT}[ ]?(?:{_SIMPLE}){_END})")
_PER_PIECE = pattern("(?<=[A-Za-z\u2103\u33a1])/(?=[袋瓶盒箱包桶罐片粒支人天日月年次组件个台套亩份批班株棵头只])")


def _rate(match: re.Match[str], language: str) -> str | None:
    low, _, high, unit, each = match.groups()
    if f"{unit}/{each}" in _UNITS:
        return None
    template, one, many = _UNITS[unit][:3]
    low, high = amounts.plain(low), amounts.plain(high or "")
    if language == "zh":
        number = f"{numbers_zh.decimal(low)}到{numbers_zh.decimal(high)}" if high else numbers_zh.counted(low)
        return f"{template.format(number)}每{_UNITS[each][0].format('')}"
    number = numbers_en.decimal(low) + (f" to {numbers_en.decimal(high)}" if high else "")
    return f"{number} {one if amounts.is_one(high or low) else many} per {_UNITS[each][1]}"


def _han_rate(match: re.Match[str], language: str) -> str | None:
    del language
    if _COUNTED_BEFORE.search(match.string[match.start() - 1 : match.start()]) is None:
        return None
    return "每" + _UNITS[match.group(1)][0].format("")


def _follows_measure(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _LONGEST_UNIT_CHARS) : match.start()]
    return _UNIT_BEFORE.search(before) is not None


def _two_measures(match: re.Match[str], language: str) -> str | None:
    if not _follows_measure(match):
        return None
    return "\u3001" if language == "zh" else ", "


def _per_piece(match: re.Match[str], language: str) -> str | None:
    return "每" if language == "zh" and _follows_measure(match) else None


RULES = (
    Rule("two measures", _TWO_MEASURES, _two_measures),
    Rule("rate", _PER_PIECE, _per_piece),
    Rule("rate", _RATE, _rate),
)
BARE = (Rule("rate", _HAN_RATE, _han_rate),)
