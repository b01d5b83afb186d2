"""Numbers that name a thing: standards (GB/T 7714-2015), screens (1080p), aeroplanes, pages (第1/4页), 1-2-3."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_BODIES = "ISO|IEC|IEEE|ANSI|ASTM|DIN|JIS|FIPS|RFC|NIST|BS|EN"
_CHINESE_BODIES = "GB|GBJ|JB|JGJ|HJ|YY|DL|DB|CJJ|JTG|QB|SH|HG|GA|TB|YD|SJ|NY|LY|WS"
_DATED = pattern(
    r"(?<![A-Za-z0-9/])(DB\d\d(?:/T)?|[TQ]/[A-Z]{2,6}|[A-Z]{2,4}(?:/[A-Z]{1,4}){0,2})[ ]?"
    r"(\d{1,5}(?:\.\d{1,3})?)[ ]?([-\u2013\u2014:])[ ]?"
    r"((?:19|20)\d\d)(?![\w/]|[-.:]\d)"
)
_DATED_SHORT = pattern(
    rf"(?<![A-Za-z0-9/])((?:{_CHINESE_BODIES})(?:/[TZ])?)[ ]?(\d{{1,5}})([-\u2013\u2014])([6-9]\d)(?![\w/]|[-.:]\d)"
)
_UNDATED = pattern(
    rf"(?<![A-Za-z0-9/])((?:{_BODIES}|{_CHINESE_BODIES})(?:/(?:[TZ]|IEC|TS|TR|IEEE))?)[ ]?(\d{{3,5}}|\d\d(?=-\d))"
    r"(?:\.(\d{1,3}))?((?:-\d{1,2}){0,2})(?![\w/:]|[-.]\d)"
)
_SCREEN = pattern(r"(?<![\w.,])(240|360|480|540|576|720|1080|1440|2160|4320)([pPiI])(?=\d\d(?!\d)|(?![A-Za-z0-9]))")
_BOEING = pattern(r"\b((?:Boeing|McDonnell Douglas|Embraer)[ -])(7\d7|\d{3})(?:-(\d{1,3}))?(?![\w.])")
_ZH_BOEING = pattern(r"((?:波音|空客)[ -]?[A-Z]?)(\d{3})-(\d{1,4})(?![\w.])")
_FISCAL = pattern(r"(?<![A-Za-z0-9])(FY|CY|AY)[ ]?((?:19|20)\d\d)(?!\d)")
_MILITARY = pattern(
    r"(?:\b(at|by|until|before|after|from)[ ]|(?<![\w.,:-])(?=0))((?:[01]\d|2[0-3])[0-5]\d)[ ](?=hours\b)"
)
_OF_PAGES = pattern(
    r"第[ ]?(\d{1,5})[ ]?/[ ]?(\d{1,5})[ ]?(页|章|集|期|步|轮|题|张|关|篇|节|回|批|卷|册|季度|季|部分|部|讲|课)"
)
_PAGE_NUMBER = pattern(r"(页码|页数|页)([:：]?[ ]?)(\d{1,5})[ ]?/[ ]?(\d{1,5})(?![\d/])")
_EN_OF_PAGES = pattern(
    r"\b((?:page|slide|part|step|chapter|episode|round|question|sheet|lesson|disc|track|level|stage|photo)[ ])"
    r"(\d{1,4})/(\d{1,4})(?![\d/])",
    re.IGNORECASE,
)
_ROW = pattern(r"(?<![\w.=+*/,:-])(?<![=+*/][ ])\d{1,3}-\d{1,3}-\d{1,3}(?![\w=+*/-]|[.,:]\d|[ ]?[=+*/\u00d7\u00f7])")
_EPISODES = pattern(r"(?<![\d/第])(\d{1,4})/(\d{1,4})(集|话|期)(?![\d])")
_MONTHS = pattern(r"(?<![\d/年])([1-9]|1[0-2])/([1-9]|1[0-2])(?=月)")
_AREA = pattern(r"(?<=DB)\d\d")
_RESOLUTION = pattern(r"(?<![\w.,])(\d{3,4})[ ]?[xX*\u00d7][ ]?(\d{3,4})(?![\w.,*\u00d7])")
_TYPE = pattern(r"(?<![A-Za-z0-9-])([A-Z]{1,3}\d{1,2})-(\d{2,4})(?![\w-]|[.,]\d)")
_EITHER = pattern(r"(?<=\d[A-Za-z])/(?=\d)")
_NUMBERS = pattern(r"(?<![\w.,/:-])\d{1,3}(?:/\d{1,3})?/\d{1,3}/(?:\d|\d{3})(?![\w/]|[.,]\d)")
_STANDARD, _SERIES = "standard", "row of numbers"


def _letters(body: str) -> str:
    return _AREA.sub(lambda match: numbers_zh.digits(match.group()), body).replace("/", " ")


def _en_number(number: str) -> str:
    """As engineers say it: "eighty six oh one", but "nine thousand one" and "twenty seven thousand one"."""
    if len(number) == 5 or number[1:3] == "00" or len(number) < 3:
        return numbers_en.cardinal(number)
    return numbers_en.room(number)


def _en_part(part: str | None) -> str:
    return "" if not part else f" dot {numbers_en.digits(part) if part[0] == '0' else numbers_en.cardinal(part)}"


def _zh_digits(number: str) -> str:
    return "点".join(numbers_zh.digits(part) for part in number.split("."))


def _dated(match: re.Match[str], language: str) -> str | None:
    body, number, sign, year = match.groups()
    known = set(body.split("/")) & set(f"{_BODIES}|{_CHINESE_BODIES}".split("|"))
    if not known and (language == "en" or sign == ":"):
        return None
    if language == "zh":
        return f"{_letters(body)} {_zh_digits(number)}{' ' if sign == ':' else '杠'}{numbers_zh.year(year)}"
    whole, _, part = number.partition(".")
    spoken_year = numbers_en.pair(year) if len(year) == 2 else numbers_en.year(year)
    return f"{_letters(body)} {_en_number(whole)}{_en_part(part)}, {spoken_year}"


def _undated(match: re.Match[str], language: str) -> str:
    body, number, part, parts = match.groups()
    if language == "zh":
        tail = "".join(f"杠{numbers_zh.digits(one)}" for one in parts.split("-")[1:])
        return f"{_letters(body)} {_zh_digits(number + (f'.{part}' if part else ''))}{tail}"
    tail = "".join(f" dash {numbers_en.cardinal(one)}" for one in parts.split("-")[1:])
    return f"{_letters(body)} {_en_number(number)}{_en_part(part)}{tail}"


def _screen(match: re.Match[str], language: str) -> str:
    lines, letter = match.groups()
    if language == "zh":
        return numbers_zh.digits(lines, yao=True) + letter
    return f"{numbers_en.room(lines)} {letter.upper()}"


def _boeing(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    maker, number, series = match.groups()
    if not series:
        return maker + numbers_en.room(number)
    tail = numbers_en.cardinal(series) if series.endswith("00") or len(series) < 3 else numbers_en.room(series)
    return f"{maker}{numbers_en.room(number)} {tail}"


def _zh_boeing(match: re.Match[str], language: str) -> str:
    del language
    maker, number, series = match.groups()
    return f"{maker}{numbers_zh.digits(number, yao=True)}杠{numbers_zh.digits(series, yao=True)}"


def _fiscal(match: re.Match[str], language: str) -> str:
    letters, year = match.groups()
    return letters + (numbers_zh.year(year) if language == "zh" else " " + numbers_en.year(year))


def _military(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    preposition, time = match.groups()
    hour = ("oh " if time[0] == "0" else "") + numbers_en.cardinal(time[:2])
    minute = "hundred" if time[2:] == "00" else numbers_en.pair(time[2:])
    return f"{preposition + ' ' if preposition else ''}{hour} {minute} "


def _ordinal_zh(number: str) -> str:
    return numbers_zh.cardinal(number).replace("两", "二")


def _of_pages(match: re.Match[str], language: str) -> str:
    """第1/4页 is the first of four pages, no quarter of a page."""
    del language
    number, total, noun = match.groups()
    return f"第{_ordinal_zh(number)}{noun}，共{numbers_zh.counted(total)}{noun}"


def _episodes(match: re.Match[str], language: str) -> str:
    del language
    number, total, noun = match.groups()
    return f"{_ordinal_zh(number)}{noun}，共{numbers_zh.counted(total)}{noun}"


def _months(match: re.Match[str], language: str) -> str:
    del language
    return "、".join(_ordinal_zh(month) for month in match.groups())


def _page_number(match: re.Match[str], language: str) -> str | None:
    del language
    word, gap, number, total = match.groups()
    if word == "页" and not gap:
        return None
    return f"{word}{gap}第{_ordinal_zh(number)}页，共{numbers_zh.counted(total)}页"


def _en_of_pages(match: re.Match[str], language: str) -> str | None:
    word, number, total = match.groups()
    return f"{word}{numbers_en.cardinal(number)} of {numbers_en.cardinal(total)}" if language == "en" else None


def _row(match: re.Match[str], language: str) -> str:
    """1-2-3 counts, 4-4-2 places players, 3-2-501 is an address: none of them subtracts."""
    parts = match.group().split("-")
    short = all(len(part) < 3 for part in parts)
    if language == "en":
        return " ".join(numbers_en.cardinal(part) if short else numbers_en.digits(part) for part in parts)
    if all(len(part) == 1 for part in parts):
        return "".join(numbers_zh.digits(part) for part in parts)
    if short:
        return "、".join(_ordinal_zh(part) for part in parts)
    return "杠".join(numbers_zh.digits(part, yao=True) if len(part) == 3 else _ordinal_zh(part) for part in parts)


def _resolution(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    return " by ".join(numbers_en.room(side) for side in match.groups())


def _type(match: re.Match[str], language: str) -> str:
    """S7-1200 is a type, no difference."""
    name, number = match.groups()
    if language == "zh":
        return f"{name}杠{numbers_zh.digits(number, yao=True)}"
    hundreds = number.endswith("00") and len(number) == 4
    return f"{name} {numbers_en.year(number) if hundreds else numbers_en.room(number) if len(number) > 2 else number}"


def _numbers(match: re.Match[str], language: str) -> str:
    """1/2/3楼 are three floors."""
    numbers = match.group().split("/")
    if language == "zh":
        return "、".join(_ordinal_zh(number) for number in numbers)
    return ", ".join(numbers_en.room(number) if len(number) == 3 else numbers_en.cardinal(number) for number in numbers)


WORDS = (
    Rule("page", _OF_PAGES, _of_pages),
    Rule("page", _EPISODES, _episodes),
    Rule("months", _MONTHS, _months),
    Rule("page", _PAGE_NUMBER, _page_number),
    Rule("page", _EN_OF_PAGES, _en_of_pages),
    Rule(_STANDARD, _DATED, _dated),
    Rule(_STANDARD, _DATED_SHORT, _dated),
    Rule(_STANDARD, _UNDATED, _undated),
    Rule("stroke", _EITHER, lambda match, language: "\u3001" if language == "zh" else " "),
    Rule("screen", _SCREEN, _screen),
    Rule("screen", _RESOLUTION, _resolution),
    Rule("list", _NUMBERS, _numbers),
    Rule("model", _TYPE, _type),
    Rule("aircraft", _BOEING, _boeing),
    Rule("aircraft", _ZH_BOEING, _zh_boeing),
    Rule("year", _FISCAL, _fiscal),
    Rule("time", _MILITARY, _military),
)
SERIES = (Rule(_SERIES, _ROW, _row),)
