"""English abbreviations, roman numerals, ordinals and plain numbers; in Chinese text only between English words."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern

_STREET = pattern(
    r"(?<=[a-z\d])[ ](St|Ave|Blvd|Rd|Ln|Hwy|Pkwy|Sq|Dr)\.?(?=\s*(?:[,;:!?)\n]|\Z|\."
    r"|(?:[a-z]|in|at|and)\b|[A-Z][a-z]+,))"
)
_SAINT = pattern(r"\b(St|Mt|Ft|Fr)\.[ ](?=[A-Z])")
_NUMBER_SIGN = pattern(r"(?:(?<![\w])#|\b(?:No|Nos|no|NO)\.[ ]?)(?=\d)")
_NUMBER_SIGN_ZH = pattern(r"(?<![A-Za-z])(?:No|NO|no)\.?[ ]?(\d{1,6})(?![\d.]*\d)")
_BEFORE_NUMBER = pattern(r"\b(p|pp|Fig|fig|vol|Vol|ch|Ch|sec|Sec|art|Art|ver)\.[ ]?(?=\d)")
_WORDS = pattern(
    r"(?<![\w.])(vs|approx|w/o|w/|govt|dept|Gov|Sen|Rep|Gen|Capt|Lt|Col|Sgt|Prof"
    r"|Rev)(?:\.(?=[ ])|(?<=[/])(?=[ ])|(?<=vs)(?=[ ]))"
)
_ROMAN = r"(X{0,3}(?:IX|IV|V?I{1,3}|V)|X{1,3})"
_RULER = pattern(
    rf"\b((?:Henry|Louis|Charles|Elizabeth|George|Edward|William|Richard|James|Napoleon|John Paul|Paul|Pius|Benedict|"
    rf"Catherine|Peter|Philip|Frederick|Alexander|Nicholas|Ramesses|Leo|Gregory|Innocent|Mary|Victoria|Francis|Otto|"
    rf"Ivan|Xerxes|Ptolemy|Darius|Cyrus|Felipe|Carlos|Umberto))[ ]{_ROMAN}\b(?!['\u2019])"
)
_PART = pattern(
    rf"\b((?:Chapter|Part|Section|Volume|War|Act|Scene|Type|Phase|Article|Book|Class|Stage|Title|Appendix|Bowl|Level|"
    rf"Figure|Table|Grade|Mark|Episode|Season|Final Fantasy|Rocky|Symphony|Apollo))[ ]{_ROMAN}\b(?!['\u2019])"
)
_CLASS = pattern(r"(?<![A-Za-z0-9])(X{0,3}(?:IX|IV|V?I{1,3})|XX{1,2}|V)(?=[级期类]|型(?:糖|超|呼|错|病|胶))")
_ORDINAL = pattern(r"(?<![\w.])(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})(st|nd|rd|th)\b", re.IGNORECASE)
_CARDINAL = pattern(rf"(?<![\d])(?<!\d[.,])(\.\d{{1,20}}|{amounts.AMOUNT})(?![\d])")
_STREETS = {
    "St": "Street",
    "Ave": "Avenue",
    "Blvd": "Boulevard",
    "Rd": "Road",
    "Ln": "Lane",
    "Hwy": "Highway",
    "Pkwy": "Parkway",
    "Sq": "Square",
    "Dr": "Drive",
}
_SAINTS = {"St": "Saint", "Mt": "Mount", "Ft": "Fort", "Fr": "Father"}
_NUMBERED = {
    "p": "page",
    "pp": "pages",
    "fig": "figure",
    "vol": "volume",
    "ch": "chapter",
    "sec": "section",
    "art": "article",
    "ver": "version",
}
_EXPANDED = {
    "vs": "versus",
    "approx": "approximately",
    "w/o": "without",
    "w/": "with",
    "govt": "government",
    "dept": "department",
    "Gov": "Governor",
    "Sen": "Senator",
    "Rep": "Representative",
    "Gen": "General",
    "Capt": "Captain",
    "Lt": "Lieutenant",
    "Col": "Colonel",
    "Sgt": "Sergeant",
    "Prof": "Professor",
    "Rev": "Reverend",
}
_NTH = pattern("第[ ]?(\\d{1,12})(?![\\d.,]*\\d)")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}


def roman_value(numeral: str) -> int:
    """Value of a numeral made of I, V and X."""
    total = 0
    for letter, following in zip(numeral, numeral[1:] + "I", strict=True):
        value = _ROMAN_VALUES[letter]
        total += -value if value < _ROMAN_VALUES[following] else value
    return total


def _street(match: re.Match[str], language: str) -> str | None:
    if language != "en":
        return None
    name = match.group(1)
    ends = match.group().endswith(".") and match.string[match.end() :].strip()[:1] in ("",)
    return f" {_STREETS[name]}{'.' if ends else ''}"


def _ruler(match: re.Match[str], language: str) -> str | None:
    name, numeral = match.groups()
    if language != "en" or (numeral == "I" and name not in ("Elizabeth", "Charles", "Napoleon", "James", "Peter")):
        return None
    return f"{name} the {numbers_en.ordinal(str(roman_value(numeral)))}"


def _part(match: re.Match[str], language: str) -> str | None:
    name, numeral = match.groups()
    number = str(roman_value(numeral))
    return f"{name} {numbers_en.cardinal(number) if language == 'en' else numbers_zh.cardinal(number)}"


def _class(match: re.Match[str], language: str) -> str:
    del language
    return numbers_zh.cardinal(str(roman_value(match.group(1))))


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


def _saint(match: re.Match[str], language: str) -> str | None:
    return f"{_SAINTS[match.group(1)]} " if language == "en" else None


def _before_number(match: re.Match[str], language: str) -> str | None:
    return f"{_NUMBERED[match.group(1).lower()]} " if language == "en" else None


def _word(match: re.Match[str], language: str) -> str | None:
    return _EXPANDED[match.group(1)] if language == "en" else None


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
    Rule("abbreviation", _SAINT, _saint),
    Rule("abbreviation", _BEFORE_NUMBER, _before_number),
    Rule("abbreviation", _WORDS, _word),
    Rule("roman numeral", _RULER, _ruler),
    Rule("roman numeral", _PART, _part),
    Rule("roman numeral", _CLASS, _class),
)
NUMBER_SIGNS = (Rule("number sign", _NUMBER_SIGN_ZH, _number_zh), Rule("number sign", _NUMBER_SIGN, _number_sign))
ORDINALS = (Rule("ordinal", _NTH, _nth), Rule("ordinal", _ORDINAL, _ordinal))
NUMBERS = (Rule("number", _CARDINAL, _cardinal),)
