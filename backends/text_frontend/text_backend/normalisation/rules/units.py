"""Numbers with a unit of measure, percentages, temperatures; also ranges of them."""

from __future__ import annotations

import re

from text_backend.data import table
from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern

_UNITS = {row[0]: row[1:] for row in table("units")}
_NAMES = sorted(_UNITS, key=len, reverse=True)
_LOOSE = "|".join(re.escape(name) for name in _NAMES if len(_UNITS[name]) < 4)
_GLUED = "|".join(re.escape(name) for name in _NAMES if len(_UNITS[name]) > 3)
_SIGN = "([-\u2212+\u00b1]?)"
_NUMBER = (
    rf"(?<![\w.,/:])(?<![\d)\]%]-)(?<![A-Za-z]-){_SIGN}({amounts.AMOUNT})(?:({amounts.RANGE_SIGN})({amounts.AMOUNT}))?"
)
_MEASURE = pattern(rf"{_NUMBER}(?:[ \t]?({_LOOSE})|({_GLUED}))(?![A-Za-z0-9\u00b2\u00b3])(?:\.(?=[ ][a-z\d]))?")
_PERCENT = pattern(
    rf"{_SIGN}(?<![\w.,])({amounts.AMOUNT})[ ]?(%|\u2030)?(?:({amounts.RANGE_SIGN})({amounts.AMOUNT}))?[ ]?(%|\u2030)"
)
_RATES = "|".join(re.escape(name) for name in _NAMES if re.match("[A-Za-zμ]+/", name))
_BARE = pattern(rf"(?<![\w/.=*+-])(?<!\d[ ])({_RATES})(?![\w/=*+])")
_PER = re.compile(r"(每.*)\{\}(.+)")
_PRESSURE = pattern(r"(?<![\w.])(\d{2,3})/(\d{2,3})[ ]?(?:mmHg|毫米汞柱)(?![A-Za-z])")
_TALL = pattern(r"(?<![\d.,])(\d{1,2})米(\d{1,2})(?![\d.米])")
_FEET = pattern(r"(?<![\w.])(\d{1,2})[ ]?['\u2032\u2019][ ]?(\d{1,2})?(?:[ ]?[\"\u2033\u201d])")
_FEET_INCHES = pattern(r"(?<![\w.])(\d{1,2})[ ]?ft\.?[ ]?(\d{1,2})[ ]?in(?:ches|\.)?(?![A-Za-z])")
_MULTIPLE = pattern(
    r"(?<![\w.,])(\d{1,4}(?:\.\d{1,3})?)x[ ](?=(?:as|more|less|fewer|faster|slower|larger|bigger|smaller|cheaper|"
    r"better|worse|higher|lower|longer|shorter|greater|stronger|lighter|heavier)\b)"
)
_HOURS_MINUTES = pattern(r"(?<![\w.,:/])(\d{1,3})h[ ]?(\d{1,2})(?:mins?|m)?(?![A-Za-z0-9.])")
_MEASURE_TIMES = pattern(r"(?<=\d[cmk]m)[ ]?\*[ ]?(?=\d)|(?<=\dm)[ ]?\*[ ]?(?=\d)")
_PER_ONE = pattern("(?<=元)/(?=[人位个次天日月年份件斤只台张间晚套桶盒瓶包袋米平吨度])")
_DEGREES = ("°C", "℃", "°F", "℉", "°")
_PER_CENT = {"%": ("百分之", "percent"), "\u2030": ("千分之", "per mille")}


def _minus(sign: str, unit: str, language: str) -> str:
    if not sign or (sign == "+" and language == "en"):
        return "plus " if sign else ""
    if language == "en":
        return {"\u00b1": "plus or minus "}.get(sign, "minus ")
    if sign == "+":
        return "正"
    if sign == "\u00b1":
        return "正负"
    return "零下" if unit in _DEGREES[:2] else "负"


def _measure(match: re.Match[str], language: str) -> str | None:
    sign, low, _dash, high, loose, glued = match.groups()
    unit = loose or glued
    template, one, many = _UNITS[unit][:3]
    low, high = amounts.plain(low), amounts.plain(high or "")
    if language == "zh":
        if unit == "s" and len(low) == 4:
            return None
        number = numbers_zh.decimal(low) if high else numbers_zh.counted(low)
        if high:
            number += "到" + numbers_zh.decimal(high)
        return _minus(sign, unit, language) + template.format(number)
    if unit == "s" and low.endswith("0") and len(low) in (2, 4) and not high:
        return None  # the 1990s, the 90s
    number = numbers_en.decimal(low)
    if high:
        number += " to " + numbers_en.decimal(high)
    return f"{_minus(sign, unit, language)}{number} {one if amounts.is_one(high or low) else many}"


def _bare(match: re.Match[str], language: str) -> str:
    """A unit without a number: km/h is 公里每小时."""
    template, _, many = _UNITS[match.group(1)][:3]
    if language == "en":
        return many
    per = _PER.fullmatch(template)
    return f"{per.group(2)}{per.group(1)}" if per else template.format("")


def _percent(match: re.Match[str], language: str) -> str | None:
    sign, low, first, dash, high, last = match.groups()
    if dash is None and first and first != last:
        return None
    prefix, word = _PER_CENT[last]
    if language == "zh":
        spoken = prefix + numbers_zh.decimal(amounts.plain(low))
        if high:
            spoken += "到" + prefix + numbers_zh.decimal(amounts.plain(high))
        return _minus(sign, "", "zh").replace("正负", "正负") + spoken
    spoken = numbers_en.decimal(amounts.plain(low))
    if high:
        spoken += " to " + numbers_en.decimal(amounts.plain(high))
    return f"{_minus(sign, '', 'en')}{spoken} {word}"


def _hours_minutes(match: re.Match[str], language: str) -> str:
    hours, minutes = match.groups()
    if language == "zh":
        return f"{numbers_zh.counted(str(int(hours)))}小时{numbers_zh.counted(str(int(minutes)))}分钟"
    one = int(minutes) == 1
    return (
        f"{numbers_en.cardinal(hours)} hour{'' if int(hours) == 1 else 's'} "
        f"{numbers_en.cardinal(minutes)} minute{'' if one else 's'}"
    )


def _tall(match: re.Match[str], language: str) -> str:
    del language
    metres, rest = match.groups()
    return numbers_zh.counted(metres) + "米" + numbers_zh.digits(rest)


def _pressure(match: re.Match[str], language: str) -> str:
    high, low = match.groups()
    if language == "zh":
        return f"{numbers_zh.cardinal(high)}、{numbers_zh.cardinal(low)}毫米汞柱"
    return f"{numbers_en.cardinal(high)} over {numbers_en.cardinal(low)} millimeters of mercury"


def _feet_inches(match: re.Match[str], language: str) -> str:
    feet, inches = match.groups()
    if language == "zh":
        return f"{numbers_zh.counted(feet)}英尺{numbers_zh.counted(inches)}英寸"
    return (
        f"{numbers_en.cardinal(feet)} {'foot' if feet == '1' else 'feet'} "
        f"{numbers_en.cardinal(inches)} {'inch' if inches == '1' else 'inches'}"
    )


def _multiple(match: re.Match[str], language: str) -> str | None:
    return f"{numbers_en.decimal(match.group(1))} times " if language == "en" else None


def _feet(match: re.Match[str], language: str) -> str | None:
    feet, inches = match.groups()
    if inches is None:
        return None
    if language == "zh":
        return f"{numbers_zh.counted(feet)}英尺{numbers_zh.counted(inches)}英寸"
    return f"{numbers_en.cardinal(feet)} foot {numbers_en.cardinal(inches)}"


BARE = (Rule("unit", _BARE, _bare),)
RULES = (
    Rule("price per piece", _PER_ONE, lambda match, language: "每"),
    Rule("product", _MEASURE_TIMES, lambda match, language: "\u00d7" if language == "zh" else " times "),
    Rule("duration", _HOURS_MINUTES, _hours_minutes),
    Rule("blood pressure", _PRESSURE, _pressure),
    Rule("feet", _FEET, _feet),
    Rule("feet", _FEET_INCHES, _feet_inches),
    Rule("multiple", _MULTIPLE, _multiple),
    Rule("height", _TALL, _tall),
    Rule("percentage", _PERCENT, _percent),
    Rule("unit", _MEASURE, _measure),
)
