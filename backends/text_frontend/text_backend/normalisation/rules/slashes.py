"""The stroke between words, which nobody says: and/or, he/she, TCP/IP, miles/hour.

Where it parts words it is heard as "or", "per", or not at all. In paths and addresses it keeps its name.
"""

from __future__ import annotations

import re

from text_backend.normalisation.rules.base import HAN, Rule, pattern

_PRONOUNS = {"he": "he", "him": "he", "his": "he", "himself": "he", "boy": "he", "man": "he", "husband": "he",
             "she": "she", "her": "she", "hers": "she", "herself": "she", "girl": "she", "woman": "she",
             "wife": "she"}  # fmt: skip
_ANY = "|".join(_PRONOUNS)
_OR = pattern(rf"(?<![\w./-])({_ANY})[ ]?/[ ]?({_ANY})(?![\w/]|\.\w)", re.IGNORECASE)
_S_HE = pattern(r"(?<![\w./-])([Ss])/he(?![\w/])")
_EACH = {
    "hour": "hour", "hr": "hour", "h": "hour", "second": "second", "sec": "second", "minute": "minute",
    "min": "minute", "day": "day", "week": "week", "month": "month", "mo": "month", "year": "year", "yr": "year",
    "person": "person", "capita": "capita", "lb": "pound", "oz": "ounce", "kg": "kilogram", "gal": "gallon",
    "gallon": "gallon", "night": "night", "seat": "seat", "user": "user", "page": "page", "item": "item",
    "unit": "unit", "piece": "piece", "share": "share", "mile": "mile", "pound": "pound",
}  # fmt: skip
_PER = pattern(
    r"(?<![\w./:-])([A-Za-z]{2,20}s|km|kilowatt|rpm)/"
    rf"({'|'.join(_EACH)})(?![\w/])"
)
_ZH_PER = pattern("(?<=[元块角])/(?=小时|分钟?|秒|千[克米瓦]|公[斤里]|克|升|股|票|户|单|课|夜|棵|kg|GB|G(?![A-Za-z]))")
_ZH_RATE = pattern(
    "(?<=\\d[次瓶个件包盒片粒支条张位人杯升克度分步字页秒])/(?=[天次组箱日周月年人盒板桌班间户瓶分秒])"
    "|(?<=小时|分钟)/(?=[次天周人月])"
)
_ZH_LIST = pattern(f"(?<=[{HAN}])[ ]?/[ ]?(?=[A-Za-z])|(?<=[A-Za-z])[ ]?/[ ]?(?=[{HAN}])|(?<=\\d[A-Za-z])/(?=\\d)")
_WORDS = pattern(
    r"(?<![\w./:\\~@=?&*+^-])(?!w/)[A-Za-z]{1,20}(?:['\u2019][a-z]{1,2})?(?:/[A-Za-z]{1,20}){1,3}(?![\w/\\=*+^]|\.\w)"
)
_PROTOCOL = pattern(r"(?<![\w./:\\-])([A-Z]{2,8})/(\d(?:\.\d)?)(?![\w/]|\.\d)")


def _or(match: re.Match[str], language: str) -> str:
    left, right = match.groups()
    differ = _PRONOUNS[left.lower()] != _PRONOUNS[right.lower()]
    joined = (" or " if language == "en" else " ") if differ else " "  # "she/her" names one kind
    return f"{left}{joined}{right}"


def _s_he(match: re.Match[str], language: str) -> str:
    del language
    return "She or he" if match.group(1) == "S" else "she or he"


def _per(match: re.Match[str], language: str) -> str | None:
    left, right = match.groups()
    return f"{left} per {_EACH[right]}" if language == "en" else None


def _words(match: re.Match[str], language: str) -> str | None:
    """``a/b`` of small letters is a sum or a path; words and initials stand side by side."""
    del language
    parts = match.group().split("/")
    if all(len(part) == 1 for part in parts) and match.group().islower() and match.group() != "n/a":
        return None
    return match.group().replace("/", " ")


def _protocol(match: re.Match[str], language: str) -> str:
    del language
    return f"{match.group(1)} {match.group(2)}"


RULES = (
    Rule("stroke", _OR, _or),
    Rule("stroke", _S_HE, _s_he),
    Rule("stroke", _PER, _per),
    Rule("stroke", _ZH_PER, lambda match, language: "每"),
    Rule("stroke", _ZH_RATE, lambda match, language: "每"),
    Rule("stroke", _ZH_LIST, lambda match, language: "\u3001"),
    Rule("stroke", _WORDS, _words),
    Rule("stroke", _PROTOCOL, _protocol),
)
