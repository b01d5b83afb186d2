"""From one number to another: 10-20, 5~8."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules import amounts
from text_backend.normalisation.rules.base import Rule, pattern

_RANGE = pattern(
    rf"(?<![\w.,/:=+*])(?<![\d-]-)({amounts.AMOUNT})"
    rf"([ \t]{{0,2}}[-\u2010-\u2015~\uff5e\u301c][ \t]{{0,2}})({amounts.AMOUNT})"
    r"(?![\w:/]|[.,]\d|[ ]{0,2}[=+*\u00d7\u00f7/-])"
)
_HAN_RANGE = pattern(rf"(?<![\w.,/:])({amounts.AMOUNT})[~\uff5e\u2013\u2014-]({amounts.AMOUNT})(?=[\u4e00-\u9fff])")


def _range(match: re.Match[str], language: str) -> str | None:
    low, dash, high = match.groups()
    if low.startswith("0") and len(low) > 1 and "." not in low:
        return None
    if "-" in dash and dash != "-" and float(amounts.plain(low)) > float(amounts.plain(high)):
        return None  # "9 - 4" subtracts
    if low == high and language == "en":
        return " ".join([numbers_en.decimal(amounts.plain(low))] * 2)  # fifty fifty
    if language == "zh":
        return f"{numbers_zh.decimal(amounts.plain(low))}到{numbers_zh.decimal(amounts.plain(high))}"
    return f"{numbers_en.decimal(amounts.plain(low))} to {numbers_en.decimal(amounts.plain(high))}"


def _han_range(match: re.Match[str], language: str) -> str | None:
    del language
    low, high = (amounts.plain(number) for number in match.groups())
    if len(low) == 4 and match.string[match.end() : match.end() + 1] == "年":
        return f"{numbers_zh.year(low)}到{numbers_zh.year(high)}"
    return f"{numbers_zh.decimal(low)}到{numbers_zh.decimal(high)}"


_ZERO = pattern(
    "(?<=[一二三四五六七八九零\u3007\u25cb])\u25cb|\u25cb(?=[一二三四五六七八九零\u3007\u25cb])"
    "|(?<=[一二三四五六七八九\u3007])[Oo](?=[一二三四五六七八九\u3007])"
)
ZEROS = (Rule("zero", _ZERO, lambda match, language: "\u3007"),)
_ARROW = pattern("-{1,2}>")
ARROWS = (Rule("arrow", _ARROW, lambda match, language: "\u2192"),)
"""A circle between numerals is written for 〇: 二○二四年."""
RULES = (Rule("range", _HAN_RANGE, _han_range), Rule("range", _RANGE, _range))
