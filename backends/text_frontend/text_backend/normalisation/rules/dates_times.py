"""Dates and times of day written with digits."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern
from text_backend.normalisation.rules.years_en import counts_something

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_SHORT_MONTHS = {month[:3].lower(): month for month in _MONTHS} | {"sept": "September"}
_MONTH = (
    "January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
)
_YEAR = r"(?:1[0-9]|20)\d\d"
_ISO = pattern(
    rf"(?<![\w.,/-])({_YEAR})([-/.])(0?[1-9]|1[0-2])\2(3[01]|[12]\d|0?[1-9])(?![\d/]|[-.]\d)(?:[ ]?[Tt](?=\d\d:))?"
)
_YEAR_MONTH = pattern(rf"(?<![\w.,/-])({_YEAR})[-/.](0[1-9]|1[0-2])(?![\w/-]|\.\d)")
_US = pattern(rf"(?<![\w.,/-])(0?[1-9]|1[0-2])/(3[01]|[12]\d|0?[1-9])/({_YEAR}|\d\d)(?![\w/-])")
_US_HYPHENS = pattern(rf"(?<![\w.,/-])(0?[1-9]|1[0-2])-(3[01]|[12]\d|0?[1-9])-({_YEAR})(?![\w/-])")
_DAY_FIRST = pattern(rf"(?<![\w.,/-])(3[01]|2\d|1[3-9])/(0?[1-9]|1[0-2])/({_YEAR})(?![\w/-])")
_US_DAY = pattern(r"(?<![\w.,/-])(0[1-9]|1[0-2])/(0[1-9]|[12]\d|3[01])(?![\w/-])")
_MONTH_DAY = pattern(
    rf"\b({_MONTH})\.?[ ](\d{{1,2}})(?:st|nd|rd|th)?(?:({amounts.RANGE_SIGN})(\d{{1,2}})(?:st|nd|rd|th)?)?"
    rf"(?:,?[ ]({_YEAR}))?(?![\w:/%]|[.,]\d)"
)
_DAY_MONTH = pattern(
    rf"(?<![\w.,/-])([Tt]he[ ])?(\d{{1,2}})(?:st|nd|rd|th)?[ ](?:of[ ])?({_MONTH})\b\.?"
    rf"(?:,?[ ]({_YEAR}))?(?![\w/]|[.,]\d)"
)
_MONTH_YEAR = pattern(rf"\b({_MONTH})\.?,?[ ]({_YEAR})(?![\w/]|[.,]\d)")
_CLOCK = r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d(?:\.\d{1,20})?))?"
_TIME = pattern(rf"(?<![\w.:,/])(?<!\d-){_CLOCK}(?![\d:])(?:[ ]?([AaPp])\.?[Mm]\b\.?|分(?!之))?")
_TIME_RANGE = pattern(rf"(?<![\w.:,/-]){_CLOCK}({amounts.RANGE_SIGN}){_CLOCK}(?![\d:])")
_HOUR = pattern(r"(?<![\w.:,/-])(1[0-2]|0?[1-9])[ ]?([AaPp])\.?([Mm])\b")
_HOURS = pattern(
    rf"(?<![\w.:,/-])(1[0-2]|0?[1-9])[ ]?(?:([AaPp])\.?[Mm]\b\.?)?{amounts.RANGE_SIGN}"
    r"(1[0-2]|0?[1-9])[ ]?([AaPp])\.?[Mm]\b"
)
_DECADE = pattern(r"(?<![\w.,/])(?<!\d-)['\u2019]?((?:1[1-9]|20)\d0|\d0)['\u2019]?s\b")
_YEARS = pattern(rf"(?<![\w.,/:$-])({_YEAR})({amounts.RANGE_SIGN})({_YEAR}|\d\d)(?![\w:/%]|[.,]\d)")
_YEAR_CONTEXT = pattern(
    r"(?i:\b(in|since|from|by|of|year|until|till|before|after|during|circa|early|late|mid|to|and|through|around|"
    r"spring|summer|autumn|fall|winter|class of|copyright|Q[1-4])[ ])((?:1[1-9]"
    r"|20)\d\d)(?![\w:/%]|[.,]\d|[ ]?(?:people|years|days|"
    r"dollars|miles|times|items|words|pages|students|points|other|more|of)\b)"
)
_BEFORE_COUNTS_TOO = frozenset({"from", "by", "of", "to", "and", "through", "around", "during", "before", "after"})
_O_CLOCK = " o'clock"
_PART_OF_DAY = re.compile("(?:上午|下午|早上|早晨|清晨|凌晨|中午|傍晚|晚上|夜里|深夜|今晚|明早)[ ]?\\Z")


def _day_zh(day: str) -> str:
    return numbers_zh.cardinal(day) + "日"


def _iso(match: re.Match[str], language: str) -> str:
    year, _, month, day = match.groups()
    if language == "zh":
        return f"{numbers_zh.year(year)}年{numbers_zh.cardinal(month)}月{_day_zh(day)}" + _gap(match)
    return f"{_MONTHS[int(month) - 1]} {numbers_en.ordinal(day)}, {numbers_en.year(year)}" + _gap(match)


def _gap(match: re.Match[str]) -> str:
    return " " if match.group()[-1] in "Tt" else ""


def _year_month(match: re.Match[str], language: str) -> str | None:
    year, month = match.groups()
    if language == "zh":
        return f"{numbers_zh.year(year)}年{numbers_zh.cardinal(month)}月"
    return f"{_MONTHS[int(month) - 1]} {numbers_en.year(year)}" if "." not in match.group() else None


def _us(match: re.Match[str], language: str) -> str:
    month, day, year = match.groups()
    if language == "zh":
        return f"{numbers_zh.year(year)}年{numbers_zh.cardinal(month)}月{_day_zh(day)}"
    spoken = numbers_en.year(year) if len(year) == 4 else numbers_en.pair(year)
    return f"{_MONTHS[int(month) - 1]} {numbers_en.ordinal(day)}, {spoken}"


def _day_first(match: re.Match[str], language: str) -> str:
    day, month, year = match.groups()
    if language == "zh":
        return f"{numbers_zh.year(year)}年{numbers_zh.cardinal(month)}月{_day_zh(day)}"
    return f"{_MONTHS[int(month) - 1]} {numbers_en.ordinal(day)}, {numbers_en.year(year)}"


def _us_day(match: re.Match[str], language: str) -> str | None:
    month, day = match.groups()
    if language == "zh":
        return f"{numbers_zh.cardinal(month)}月{_day_zh(day)}"
    return f"{_MONTHS[int(month) - 1]} {numbers_en.ordinal(day)}"


def _month(name: str) -> str:
    return _SHORT_MONTHS[name[:4].lower()] if name[:4].lower() == "sept" else _SHORT_MONTHS[name[:3].lower()]


def _month_day(match: re.Match[str], language: str) -> str | None:
    del language
    name, day, _dash, last, year = match.groups()
    if not 1 <= int(day) <= 31 or (last and not 1 <= int(last) <= 31):
        return None
    spoken = f"{_month(name)} {numbers_en.ordinal(day)}"
    if last:
        spoken += f" to {numbers_en.ordinal(last)}"
    return spoken + (f", {numbers_en.year(year)}" if year else "")


def _day_month(match: re.Match[str], language: str) -> str | None:
    del language
    article, day, name, year = match.groups()
    if not 1 <= int(day) <= 31:
        return None
    dot = "." if match.group().endswith(".") and name in _MONTHS else ""
    return (
        f"{article or 'the '}{numbers_en.ordinal(day)} of {_month(name)}"
        + (f" {numbers_en.year(year)}" if year else "")
        + dot
    )


def _month_year(match: re.Match[str], language: str) -> str:
    del language
    return f"{_month(match.group(1))} {numbers_en.year(match.group(2))}"


def _clock(hour: str, minute: str, second: str | None, language: str) -> str:
    if language == "zh":
        spoken = numbers_zh.counted(str(int(hour))) + "点"
        if int(minute) or second:
            spoken += _two_zh(minute) + "分"
        return spoken + (_seconds_zh(second) + "秒" if second else "")
    spoken = numbers_en.cardinal(hour)
    if int(minute):
        spoken += " " + numbers_en.pair(minute)
    elif not second:
        spoken += _O_CLOCK if 0 < int(hour) < 13 else " hundred"
    if second:
        seconds = numbers_en.decimal(str(int(second[:2])) + second[2:])
        spoken += f"{'' if int(minute) else ' hundred'} and {seconds} second{'' if second == '01' else 's'}"
    return spoken


def _two_zh(number: str) -> str:
    return numbers_zh.digits(number) if number[0] == "0" else numbers_zh.cardinal(number)


def _seconds_zh(second: str) -> str:
    whole, point, fraction = second.partition(".")
    return _two_zh(whole) + (f"点{numbers_zh.digits(fraction)}" if point else "")


def _noon(match: re.Match[str], half: str) -> str:
    """上午 or 下午, unless the time of day is there already: 下午5pm."""
    if _PART_OF_DAY.search(match.string[max(0, match.start() - 3) : match.start()]):
        return ""
    return {"a": "上午", "p": "下午"}[half.lower()]


def month_day(month: str, day: str, language: str) -> str:
    """A day without its year."""
    if language == "zh":
        return f"{numbers_zh.cardinal(month)}月{_day_zh(day)}"
    return f"{_MONTHS[int(month) - 1]} {numbers_en.ordinal(day)}"


def _time(match: re.Match[str], language: str) -> str | None:
    hour, minute, second, half = match.groups()
    if language == "zh":
        noon = _noon(match, half) if half else ""
        return noon + _clock(hour, minute, second, language)
    spoken = _clock(hour, minute, second, language)
    if not half:
        return spoken
    whole = match.group()
    suffix = whole[whole.lower().rindex(half.lower()) :]
    suffix = suffix if "." in suffix else suffix.upper()
    return f"{spoken.removesuffix(_O_CLOCK)} {suffix}"


def _time_range(match: re.Match[str], language: str) -> str:
    hour, minute, second, _, hour2, minute2, second2 = match.groups()
    to = "到" if language == "zh" else " to "
    return _clock(hour, minute, second, language) + to + _clock(hour2, minute2, second2, language)


def _hour(match: re.Match[str], language: str) -> str:
    hour, half, _m = match.groups()
    if language == "zh":
        return _noon(match, half) + numbers_zh.counted(str(int(hour))) + "点"
    suffix = match.group()[len(hour) :].strip()
    return f"{numbers_en.cardinal(hour)} {suffix if '.' in suffix else suffix.upper()}"


def _hours(match: re.Match[str], language: str) -> str:
    first, half, last, half2 = match.groups()
    if language == "zh":
        noon = {"a": "上午", "p": "下午"}
        start = f"{_noon(match, half or half2)}{numbers_zh.counted(str(int(first)))}点"
        end = noon[half2.lower()] if half and half.lower() != half2.lower() else ""
        return f"{start}到{end}{numbers_zh.counted(str(int(last)))}点"
    start = numbers_en.cardinal(first) + (f" {half.upper()}M" if half else "")
    return f"{start} to {numbers_en.cardinal(last)} {half2.upper()}M"


def _decade(match: re.Match[str], language: str) -> str:
    decade = match.group(1)
    if language == "zh":
        return (numbers_zh.digits(decade) if len(decade) == 4 else numbers_zh.cardinal(decade)) + "年代"
    if len(decade) == 2:
        return numbers_en.plural(numbers_en.cardinal(decade))
    return numbers_en.plural(numbers_en.year(decade))


def _years(match: re.Match[str], language: str) -> str:
    first, _, last = match.groups()
    if language == "zh":
        return numbers_zh.year(first) + "到" + numbers_zh.year(last)
    return f"{numbers_en.year(first)} to {numbers_en.year(last) if len(last) == 4 else numbers_en.pair(last)}"


def _year_context(match: re.Match[str], language: str) -> str | None:
    word, number = match.groups()
    if language != "en":
        return None
    if word.lower() in _BEFORE_COUNTS_TOO and counts_something(match.string, match.start(2), match.end(), number):
        return None
    return f"{word} {numbers_en.year(number)}"


_ZH_DAYS = pattern("(\\d{1,2})月(\\d{1,2})([日号]?)([-~\\u2013\\u2014至到])(\\d{1,2})([日号])")
_TWO_OCLOCK = pattern("(?<![\\d.点])2(?=点(?!\\d))")
_COPYRIGHT = pattern("(?<=\u00a9)[ ]?((?:19|20)\\d\\d)(?!\\d)")
_ZH_YEAR = pattern("(?<![A-Za-z0-9.,:/-])((?:1[6-9]|20)\\d\\d)(?=[QH][1-4]|级|届|款|财年|赛季|版)")
_FEAST = pattern(
    "(?<![\\d.])([1-9]|10)\\.([1-9]|1\\d|2\\d|3[01])"
    "(?=(?:国际)?劳动节|国际妇女节|妇女节|青年节|儿童节|建党节|建军节|国庆|黄金周|小长假|假期|放假|出游|晚会|事变)"
)
_ZH_SPAN = pattern("(?<=[年月日号时点分秒])[ ]?[-~\\u2013\\u2014]{1,2}[ ]?(?=\\d{1,4}[年月日号时点分秒])")
_GENERATIONS = pattern("(?<![\\d.])(\\d0)((?:[、和与及]\\d0){1,4})(?=后(?![面来续天年]))")
_TITLE_YEAR = pattern("(?<=《)((?:1[5-9]|20)\\d\\d)(?=》)")
_SALE = pattern("(?<![\\d.])(618|315|520|1212|1111)(?=大促|晚会|购物节|年中|狂欢节?|活动)")
_MEMORIAL = pattern("(?<![\\d.])(\\d{1,2})\u00b7(\\d{1,2})(?![\\d.])")


def _zh_days(match: re.Match[str], language: str) -> str:
    del language
    month, first, day, dash, last, day2 = match.groups()
    to = dash if dash in "至到" else "到"
    return f"{numbers_zh.cardinal(month)}月{numbers_zh.cardinal(first)}{day}{to}{numbers_zh.cardinal(last)}{day2}"


def _copyright(match: re.Match[str], language: str) -> str:
    return numbers_zh.year(match.group(1)) if language == "zh" else " " + numbers_en.year(match.group(1))


def _zh_year(match: re.Match[str], language: str) -> str | None:
    return numbers_zh.year(match.group(1)) if language == "zh" else None


def _memorial(match: re.Match[str], language: str) -> str | None:
    """Days known by their digits: 9·11 is 九一一."""
    return numbers_zh.digits("".join(match.groups())) if language == "zh" else None


def _feast(match: re.Match[str], language: str) -> str | None:
    """Days known by month and day: 3.8 is 三八, 10.1 is 十一."""
    if language != "zh":
        return None
    month, day = match.groups()
    return numbers_zh.cardinal(month) + (numbers_zh.cardinal(day) if month == "10" else numbers_zh.digits(day))


def _generations(match: re.Match[str], language: str) -> str | None:
    if language != "zh":
        return None
    first, others = match.groups()
    return numbers_zh.digits(first) + re.sub(r"\d0", lambda found: numbers_zh.digits(found.group()), others)


def _zh_digits(match: re.Match[str], language: str) -> str | None:
    return numbers_zh.digits(match.group(1)) if language == "zh" else None


RULES = (
    Rule("memorial day", _FEAST, _feast),
    Rule("memorial day", _SALE, _zh_digits),
    Rule("year", _TITLE_YEAR, _zh_digits),
    Rule("decade", _GENERATIONS, _generations),
    Rule("range", _ZH_SPAN, lambda match, language: "到"),
    Rule("date", _ISO, _iso),
    Rule("date", _ZH_DAYS, _zh_days),
    Rule("time", _TWO_OCLOCK, lambda match, language: "两"),
    Rule("year", _COPYRIGHT, _copyright),
    Rule("year", _ZH_YEAR, _zh_year),
    Rule("memorial day", _MEMORIAL, _memorial),
    Rule("date", _US, _us),
    Rule("date", _US_HYPHENS, _us),
    Rule("date", _DAY_FIRST, _day_first),
    Rule("date", _MONTH_DAY, _month_day),
    Rule("date", _DAY_MONTH, _day_month),
    Rule("date", _MONTH_YEAR, _month_year),
    Rule("date", _US_DAY, _us_day),
    Rule("date", _YEAR_MONTH, _year_month),
    Rule("time", _TIME_RANGE, _time_range),
    Rule("time", _TIME, _time),
    Rule("time", _HOURS, _hours),
    Rule("time", _HOUR, _hour),
    Rule("decade", _DECADE, _decade),
    Rule("years", _YEARS, _years),
    Rule("year", _YEAR_CONTEXT, _year_context),
)
