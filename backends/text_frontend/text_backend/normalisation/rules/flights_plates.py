"""Flights, trains and number plates: letters by name, digits one by one."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_FLIGHT = pattern(r"(?<![A-Za-z0-9-])([A-Z]{2}|[A-Z]\d|\d[A-Z])(\d{3,4})(?![A-Za-z0-9]|[.,:]\d)")
_TRAIN = pattern(
    r"(?<![A-Za-z0-9-])([GDCZTKYLS])(\d{1,4})(?=次|列车|动车|高铁|号?车次|/|、[GDCZTK]\d)|"
    r"(?<=坐|乘)([GDCZTKYLS])(\d{1,4})(?![A-Za-z0-9.])"
)
_PLATE = pattern(
    "([京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z])"
    "[\u00b7.\u2022 ]?([A-Z0-9]{4,6}[A-Z0-9学警挂港澳])"
)

_CRAFT = pattern(
    "(歼|轰|运|直|强击?|苏|图|米格|东风|长征|神舟|嫦娥|天舟|天宫|天问|巨浪|鹰击|红旗|霹雳|伊尔|阿波罗|联盟|风云|北斗)"
    "[-\u2013](\\d{1,3})(?![\\d.%°℃度])"
)


def _flight(match: re.Match[str], language: str) -> str | None:
    carrier, number = match.groups()
    letters = " ".join(carrier)
    if language == "zh":
        return _digits(carrier) + numbers_zh.digits(number, yao=True)
    spelled = " ".join(numbers_en.digits(c) if c.isdigit() else c for c in letters.split())
    return f"{spelled} {numbers_en.digits(number)}"


def _train(match: re.Match[str], language: str) -> str | None:
    if language != "zh":
        return None  # G7/G20 are no trains
    letter, number = (match.group(1), match.group(2)) if match.group(1) else (match.group(3), match.group(4))
    return letter + numbers_zh.digits(number, yao=True)


def _craft(match: re.Match[str], language: str) -> str | None:
    """A dash before the number of a type is no minus: 歼-20 is 歼二十."""
    if language != "zh":
        return None
    return match.group(1) + numbers_zh.cardinal(match.group(2)).replace("两", "二")


def _plate(match: re.Match[str], language: str) -> str | None:
    if language != "zh":
        return None
    return match.group(1) + _digits(match.group(2))


def _digits(text: str) -> str:
    return "".join(numbers_zh.digits(c, yao=True) if c.isdigit() else c for c in text)


RULES = (
    Rule("craft", _CRAFT, _craft),
    Rule("plate", _PLATE, _plate),
    Rule("train", _TRAIN, _train),
    Rule("flight", _FLIGHT, _flight),
)
