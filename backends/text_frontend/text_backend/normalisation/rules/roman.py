"""Roman numerals: Henry VIII, Chapter IV, Super Bowl LVIII, 第II章.

A numeral of one or two letters is read only where the words around it ask for a number: I, V, X, CD, MD, DC, VI and
XL are words, letters, sizes and places. Longer ones stand for themselves (XIV, LVIII, MMXXIV) unless they spell an
English word or a common abbreviation (MIX, CIV, DVI, XXX).
"""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import HAN, Rule, pattern

_SMALL = r"(?:X{0,3}(?:IX|IV|V?I{1,3}|V)|X{1,3})"
"""1 to 39."""
_HUNDRED = r"(?=[IVXL])(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
"""1 to 99, with one shape for each number."""
_ANY = r"(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_NOT_POSSESSIVE = "(?!['\u2019])"

_NAMES = (
    "Henry|Louis|Charles|Elizabeth|George|Edward|William|Richard|James|Napoleon|John Paul|Paul|Pius|Benedict|Catherine|"
    "Peter|Philip|Frederick|Alexander|Nicholas|Ramesses|Leo|Gregory|Innocent|Mary|Victoria|Francis|Otto|Ivan|Xerxes|"
    "Ptolemy|Darius|Cyrus|Felipe|Carlos|Umberto"
)
_TITLES = "Pope|King|Queen|Emperor|Empress|Tsar|Czar|Kaiser|Sultan|Prince|Pharaoh"
_FIRST_OF_NAME = frozenset({"Elizabeth", "Charles", "Napoleon", "James", "Peter"})
"""Names after which a single I is "the first" and not the speaker."""
_RULER = pattern(rf"\b((?:(?:{_TITLES})[ ][A-Z][a-z]{{1,15}})|(?:{_NAMES}))[ ]({_SMALL})\b{_NOT_POSSESSIVE}")
_HEIR = pattern(
    r"\b([A-Z][a-z]{1,15}[ ](?:[A-Z]\.[ ]?){1,2}[A-Z][a-z]{1,20})[ ](II|III|IV)\b" + _NOT_POSSESSIVE
)  # John D. Rockefeller III
_KEYWORDS = (
    "chapter|part|section|volume|war|act|scene|type|phase|article|book|class|stage|title|appendix|bowl|level|figure|"
    "table|grade|mark|episode|season|final fantasy|rocky|symphony|apollo|annex|schedule|canto|psalm|sonnet|amendment|"
    "category|division|generation|round|step|unit|lesson|verse|column|vatican|wrestlemania"
)
_PART = pattern(rf"\b((?i:(?:{_KEYWORDS})s?))[ ]({_HUNDRED})\b{_NOT_POSSESSIVE}")
_CENTURY = pattern(rf"\b({_SMALL})(?:st|nd|rd|th)?[ ]((?i:century|centuries|olympiad|congress|dynasty))\b")
_ALONE = pattern(rf"(?<![\w.,'\u2019/&+-])({_ANY})(?![\w'\u2019/&+-]|\.\w)")
_WORDS_OF_NUMERAL_LETTERS = frozenset(
    {"XXX", "MIX", "CIV", "DIM", "DVI", "CLI", "MCI", "MDI", "CDI", "CCC", "MMM", "DCI", "LCI", "MIV", "CIX", "CCD",
     "MDX", "DMC", "MDC", "CMI", "CMX", "DLI", "DCC", "MCC", "MCM", "MMI", "MMC", "LLC", "CVI", "CXI", "CCI", "MLI",
     "DXX", "CXX", "CMV", "MCV", "DCX", "DIV", "MMX", "CDC", "MDV", "DLC", "CLX", "LXI", "LVI"}
)  # fmt: skip
_CLASS = pattern(r"(?<![A-Za-z0-9])(X{0,3}(?:IX|IV|V?I{1,3})|XX{1,2}|V)(?=[级期类]|型(?:糖|超|呼|错|病|胶))")
_NTH = pattern(rf"(?<=第)[ ]?({_HUNDRED})(?![A-Za-z0-9])")
_VOLUME = pattern(rf"(?<=[卷册篇章])[ ]?({_SMALL})(?![A-Za-z0-9])")
_ZH_RULER = pattern(
    "(路易|亨利|查理|查尔斯|爱德华|乔治|威廉|伊丽莎白|彼得|保罗|约翰|理查|詹姆斯|亚历山大|尼古拉|拿破仑|腓力|菲利普|腓特烈|"
    rf"本笃|庇护|利奥|叶卡捷琳娜|弗朗茨|古斯塔夫)[ ]?({_SMALL})(?![A-Za-z0-9])(世?)"
)
_ZH_BESIDE = pattern(
    rf"(?<=[{HAN}])(II|III|VII|VIII|X{{1,3}}(?:IX|IV|V?I{{1,3}}))(?![A-Za-z0-9])"
    rf"|(?<![A-Za-z0-9])(II|III|VII|VIII|X{{1,3}}(?:IX|IV|V?I{{2,3}}))(?=[{HAN}])"
)
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_LONGEST_NAMED_WITH_SHI = 10


def roman_value(numeral: str) -> int:
    """Value of a numeral."""
    total = 0
    for letter, following in zip(numeral, numeral[1:] + "I", strict=True):
        value = _VALUES[letter]
        total += -value if value < _VALUES[following] else value
    return total


def _cardinal(numeral: str, language: str) -> str:
    number = str(roman_value(numeral))
    if language == "zh":
        return numbers_zh.cardinal(number).replace("两", "二")
    return numbers_en.year(number) if len(number) == 4 else numbers_en.cardinal(number)


def _ordinal(numeral: str) -> str:
    return numbers_en.ordinal(str(roman_value(numeral)))


def _ruler(match: re.Match[str], language: str) -> str | None:
    name, numeral = match.groups()
    if language != "en" or (numeral == "I" and name.split()[-1] not in _FIRST_OF_NAME):
        return None
    return f"{name} the {_ordinal(numeral)}"


def _heir(match: re.Match[str], language: str) -> str | None:
    return f"{match.group(1)} the {_ordinal(match.group(2))}" if language == "en" else None


def _part(match: re.Match[str], language: str) -> str | None:
    keyword, numeral = match.groups()
    if numeral == "L" or (len(numeral) == 1 and keyword[0].islower()):
        return None  # "the part I like"
    return f"{keyword} {_cardinal(numeral, language)}"


def _century(match: re.Match[str], language: str) -> str | None:
    return f"{_ordinal(match.group(1))} {match.group(2)}" if language == "en" else None


def _alone(match: re.Match[str], language: str) -> str | None:
    numeral = match.group(1)
    if language != "en" or (len(numeral) < 3 and numeral != "II") or numeral in _WORDS_OF_NUMERAL_LETTERS:
        return None
    return _cardinal(numeral, language)


def _zh(match: re.Match[str], language: str) -> str | None:
    del language
    return _cardinal(next(group for group in match.groups() if group), "zh")


def _zh_ruler(match: re.Match[str], language: str) -> str:
    """路易十四, but 亨利八世."""
    del language
    name, numeral, shi = match.groups()
    return name + _cardinal(numeral, "zh") + (shi or ("世" if roman_value(numeral) <= _LONGEST_NAMED_WITH_SHI else ""))


NAME = "roman numeral"
RULES = (
    Rule(NAME, _RULER, _ruler),
    Rule(NAME, _HEIR, _heir),
    Rule(NAME, _PART, _part),
    Rule(NAME, _CENTURY, _century),
    Rule(NAME, _CLASS, _zh),
    Rule(NAME, _NTH, _zh),
    Rule(NAME, _ZH_RULER, _zh_ruler),
    Rule(NAME, _VOLUME, _zh),
    Rule(NAME, _ZH_BESIDE, _zh),
    Rule(NAME, _ALONE, _alone),
)
