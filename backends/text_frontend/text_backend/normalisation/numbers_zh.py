"""Mandarin number words. Arguments are strings of ASCII digits, so that no zero is lost."""

from __future__ import annotations

from functools import lru_cache

_DIGITS = "零一二三四五六七八九"
_UNITS = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿", "万亿")
_LONGEST_CARDINAL_DIGITS = 16


def digits(number: str, *, yao: bool = False) -> str:
    """Digit by digit; with ``yao`` 1 is 幺, as in telephone and room numbers."""
    spoken = "".join(_DIGITS[int(digit)] for digit in number)
    return spoken.replace("一", "幺") if yao else spoken


@lru_cache(maxsize=4096)
def cardinal(number: str) -> str:
    """``1200`` as 一千二百; digit by digit from 17 digits on. 2 is 两 before 千, 万, 亿 and a leading 百."""
    number = number.lstrip("0") or "0"
    if len(number) > _LONGEST_CARDINAL_DIGITS:
        return digits(number)
    if number == "0":
        return "零"
    groups: list[str] = []
    while number:
        groups.append(number[-4:])
        number = number[:-4]
    spoken = ""
    zero = False
    for power in reversed(range(len(groups))):
        group = groups[power]
        if not int(group):
            zero = bool(spoken)
            continue
        if spoken and (zero or group[0] == "0"):
            spoken += "零"
        zero = False
        spoken += _group(group.lstrip("0"), leading=not spoken, before_unit=power > 0) + _GROUPS[power]
    # 一十 at the head of the whole number is 十
    return spoken[1:] if spoken.startswith("一十") else spoken


def _group(group: str, *, leading: bool, before_unit: bool) -> str:
    if group == "2" and before_unit:
        return "两"
    spoken = ""
    zero = False
    for place, digit in zip(reversed(range(len(group))), group, strict=True):
        if digit == "0":
            zero = True
            continue
        if zero and spoken:
            spoken += "零"
        zero = False
        two = digit == "2" and (place == 3 or (place == 2 and leading and not spoken))
        spoken += ("两" if two else _DIGITS[int(digit)]) + _UNITS[place]
    return spoken


def decimal(number: str) -> str:
    """``3.05`` as 三点零五; also whole numbers and ``.5``."""
    whole, point, fraction = number.partition(".")
    spoken = cardinal(whole) if whole else "零"
    return f"{spoken}点{digits(fraction)}" if point and fraction else spoken


def counted(number: str) -> str:
    """A number before a measure word: 2 alone is 两."""
    return "两" if number == "2" else decimal(number)


def year(number: str) -> str:
    """Digit by digit, as years are read."""
    return digits(number)
