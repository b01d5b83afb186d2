"""Number tokens that several rules share."""

from __future__ import annotations

from text_backend.normalisation import numbers_en, numbers_zh

AMOUNT = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,24})(?:\.\d{1,20})?"
"""A number with or without thousands separators and decimals; no groups."""
RANGE_SIGN = r"[ \t]{0,2}[-\u2010-\u2015~\uff5e\u301c\u81f3\u5230][ \t]{0,2}"


def plain(amount: str) -> str:
    """Without thousands separators."""
    return amount.replace(",", "")


def say(amount: str, language: str) -> str:
    """A number in words."""
    number = plain(amount)
    if language == "zh":
        return numbers_zh.decimal(number)
    return numbers_en.decimal(number)


def trimmed(amount: str) -> str:
    """Without zeros at the end of the decimals: of prices, 9.50 is said as 9.5."""
    number = plain(amount)
    return number.rstrip("0").rstrip(".") if "." in number else number


def is_one(amount: str) -> bool:
    """Whether English takes the singular."""
    return amount in ("1", "1.0")
