"""English numbers that the text pipeline has left as digits: which of them are years, and which are read one by one."""

from __future__ import annotations

import re
from functools import lru_cache

from text_backend.normalisation import numbers_en

NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(st|nd|rd|th|s)?(?![A-Za-z\d])", re.ASCII)
_SHORT_DIGITS = 12
"""Longer numbers hardly come twice."""


def read_number(whole: str, fraction: str = "", suffix: str = "") -> list[str]:
    """Words of a number.

    Args:
        whole: digits, commas between thousands allowed. Numbers that begin with 0 and those above a quadrillion are
            read digit by digit, those from 1100 to 2099 without commas as years are.
        fraction: with its point, ``.25``.
        suffix: of an ordinal (``th``) or of a decade (``s``).
    """
    read = _read_short if len(whole) + len(fraction) <= _SHORT_DIGITS else _read
    return list(read(whole, fraction, suffix))


def _read(whole: str, fraction: str, suffix: str) -> tuple[str, ...]:
    number = whole.replace(",", "")
    begins_with_zero = number[0] == "0" and len(number) > 1
    if begins_with_zero:
        words = numbers_en.digits(number)
    elif not fraction and "," not in whole and suffix in ("", "s") and _is_year(number):
        words = numbers_en.year(number)
    else:
        words = numbers_en.cardinal(number)
    if fraction:
        words += f" point {numbers_en.digits(fraction[1:])}"
    elif suffix == "s":
        words = numbers_en.plural(words)
    elif suffix:
        words = numbers_en.ordinal_of_words(words)
    return tuple(words.split())


_read_short = lru_cache(maxsize=4096)(_read)


def _is_year(number: str) -> bool:
    return len(number) == 4 and 1100 <= int(number) <= 2099
