"""The sign between two quantities that each have a unit: 10℃-20℃, 5元~10元, 2h-3h, 9:00AM-5:00PM, 周一~周五.

One rule for all units: the sign is said as 到 or "to" here, and the quantities on both sides are left to their rules.
A range of bare numbers, or with one unit for both, is read by the rules of the unit and by :mod:`ranges`.
"""

from __future__ import annotations

import re

from text_backend.data import table
from text_backend.normalisation.rules import amounts, dates_times
from text_backend.normalisation.rules.base import HAN, Rule, pattern

_DASH = "[ \t]{0,2}[-\u2010-\u2015\u2212~\uff5e\u301c][ \t]{0,2}"
_UNITS = "|".join(re.escape(row[0]) for row in sorted(table("units"), key=lambda row: len(row[0]), reverse=True))
_WORD_UNITS = "(?:minute|hour|day|week|month|year|mile|meter|foot|inch|pound|dollar|percent|degree|kilometer)s?|feet"
_LATIN = f"(?:{_UNITS}|[kKwWMB]|%|\u2030)"
_NUMBER = f"[-\u2212]?{amounts.AMOUNT}"
_AFTER_UNIT = "(?![A-Za-z0-9\u00b2\u00b3])"
_LATIN_SPAN = pattern(
    rf"(?<=[A-Za-z%\u2030\u00b0\u2103\u2109\u00b2\u00b3\u03a9\u33a1]){_DASH}"
    rf"(?={_NUMBER}(?:[ \t]?(?:{_LATIN}{_AFTER_UNIT}|[{HAN}])|[ ](?:{_WORD_UNITS})\b)|[$\u00a5\u20ac\u00a3]\d)"
)
_SHORT_SCALE = pattern(rf"(?<=\d)[-\u2013](?={amounts.AMOUNT}[kKwMBx](?![A-Za-z0-9=]))")
_BARE_BEFORE = re.compile(rf"(?<![\w.,/:=+*-]){amounts.AMOUNT}\Z", re.ASCII)
_LONGEST_NUMBER_CHARS = 12
_UNIT_BEFORE = re.compile(rf"\d(?:[ \t]?{_LATIN}|[ ](?:{_WORD_UNITS}))\Z", re.ASCII)
_LONGEST_UNIT_CHARS = 16
_OFF_BEFORE = re.compile(r"满[\d,.]{1,9}\Z", re.ASCII)
_HAN_SPAN = pattern(
    rf"(?<=\d)([ ]?[{HAN}]{{1,4}}){_DASH}(?=\u7b2c?{_NUMBER}[ ]?([{HAN}]{{1,4}}|{_LATIN}{_AFTER_UNIT}))"
)
_PLACE = re.compile("\u5355\u5143|\u53f7?[\u697c\u9662]|[\u5c42\u680b\u5e62\u5ea7\u5ba4\u5385\u536b\u6237\u95e8]")
_NEGATIVE_SPAN = pattern(rf"(?<=\d){_DASH}(?=[-\u2212]\d)")
_TILDE_SPAN = pattern(r"(?<=[\d%\u2103\u00b0])[ \t]{0,2}[~\uff5e\u301c][ \t]{0,2}(?=\d)")
_WEEKDAY = "[一二三四五六日天]"
_WEEKDAYS = pattern(rf"((?:周|星期|礼拜){_WEEKDAY}){_DASH}(?=(?:周|星期|礼拜){_WEEKDAY}|{_WEEKDAY}(?![{HAN}]))")
_HALF = r"[AaPp]\.?[Mm]\b"
_CLOCK_SPAN = pattern(
    rf"(\d{{1,2}}:[0-5]\d(?:[ ]?{_HALF}\.?)?|(?<![\d:])\d{{1,2}}[ ]?{_HALF}\.?(?=[^:\n]{{1,6}}:)){_DASH}"
    rf"(?=\d{{1,2}}(?::[0-5]\d)?[ ]?{_HALF})"
)
_DAY = r"(?:1[0-9]|20)\d\d([-/.])(?:0?[1-9]|1[0-2])\2(?:3[01]|[12]\d|0?[1-9])"
_DATE_SPAN = pattern(
    rf"(?<![\w.,/-])({_DAY}){_DASH}(?={_DAY.replace('([', '(?P<sign>[').replace(chr(92) + '2', '(?P=sign)')}(?![\d/]))"
)
_DATE_TO_DAY = pattern(
    rf"(?<![\w.,/-])({_DAY}){_DASH}(0?[1-9]|1[0-2])([-/.])(3[01]|[12]\d|0?[1-9])(?![\w/%\u2103]|[-.]\d)"
)
_DAYS_OF_MONTHS = pattern(
    rf"(?<![\w.,/:-])(0?[1-9]|1[0-2])\.(3[01]|[12]\d|0?[1-9]){_DASH}(0?[1-9]|1[0-2])\.(3[01]|[12]\d|0?[1-9])"
    r"(?=[ ]?(?:放假|休假|期间|调休|假期|国庆|中秋|春节|端午|五一|营业|闭馆|开放|休息"
    r"|出差|出游|上课|开学|考试|促销|大促|活动|特惠|限时|停业|休市))"
)
_EN_DAYS = {
    "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Thur": "Thursday",
    "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday",
    "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "May": "May", "Jun": "June", "Jul": "July",
    "Aug": "August", "Sep": "September", "Sept": "September", "Oct": "October", "Nov": "November", "Dec": "December",
}  # fmt: skip
_EN_DAY = "|".join(sorted(_EN_DAYS, key=len, reverse=True))
_EN_DAY_SPAN = pattern(rf"(?<![\w-])({_EN_DAY})\.?{_DASH}({_EN_DAY})(?![\w'\u2019-])")


def _to(language: str) -> str:
    return "到" if language == "zh" else " to "


def _kept(match: re.Match[str], language: str) -> str:
    """What stands before the sign, and the sign said."""
    return match.group(1) + _to(language)


def _han_span(match: re.Match[str], language: str) -> str | None:
    """3楼-301室 is an address, 满200元-20元 a discount; 1楼-3楼 and 6个月-3岁 are ranges."""
    del language
    left, right = match.group(1).strip(), match.group(2)
    if _OFF_BEFORE.search(match.string[max(0, match.start() - 10) : match.start()]):
        return None
    if match.string[match.end(2) : match.end(2) + 2].lstrip()[:1] == "=":
        return match.group(1) + "减"  # 5个-3个=2个
    if not right.startswith(left) and (_PLACE.search(left) or _PLACE.match(right)):
        return match.group(1) + " "
    return match.group(1) + "到"


def _short_scale(match: re.Match[str], language: str) -> str | None:
    """3-4k, 2-3x."""
    before = match.string[max(0, match.start() - _LONGEST_NUMBER_CHARS) : match.start()]
    return _to(language) if _BARE_BEFORE.search(before) else None


def _latin_span(match: re.Match[str], language: str) -> str | None:
    before = match.string[max(0, match.start() - _LONGEST_UNIT_CHARS) : match.start()]
    return _to(language) if _UNIT_BEFORE.search(before) else None


def _date_to_day(match: re.Match[str], language: str) -> str:
    month, day = match.group(3), match.group(5)
    return match.group(1) + _to(language) + dates_times.month_day(month, day, language)


def _days_of_months(match: re.Match[str], language: str) -> str:
    first, second = match.groups()[:2], match.groups()[2:]
    return _to(language).join(dates_times.month_day(month, day, language) for month, day in (first, second))


def _en_day_span(match: re.Match[str], language: str) -> str | None:
    return f"{_EN_DAYS[match.group(1)]} to {_EN_DAYS[match.group(2)]}" if language == "en" else None


def _sign(match: re.Match[str], language: str) -> str:
    return _to(language)


WORDS = (Rule("range", _WEEKDAYS, _kept), Rule("range", _EN_DAY_SPAN, _en_day_span))
RULES = (
    Rule("range", _DAYS_OF_MONTHS, _days_of_months),
    Rule("range", _DATE_TO_DAY, _date_to_day),
    Rule("range", _DATE_SPAN, _kept),
    Rule("range", _CLOCK_SPAN, _kept),
    Rule("range", _HAN_SPAN, _han_span),
    Rule("range", _LATIN_SPAN, _latin_span),
    Rule("range", _SHORT_SCALE, _short_scale),
    Rule("range", _NEGATIVE_SPAN, _sign),
)
TILDES = (Rule("range", _TILDE_SPAN, _sign),)
