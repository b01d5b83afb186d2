"""English number words (US usage, no "and"). Arguments are strings of ASCII digits, so that no zero is lost."""

from __future__ import annotations

from functools import lru_cache

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ("", "thousand", "million", "billion", "trillion", "quadrillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_LONGEST_CARDINAL_DIGITS = 3 * len(_SCALES)
_PLURAL_IES = "y"


def digits(number: str, zero: str = "zero") -> str:
    """Digit by digit."""
    return " ".join(zero if digit == "0" else _UNITS[int(digit)] for digit in number)


@lru_cache(maxsize=4096)
def cardinal(number: str) -> str:
    """``1200`` as "one thousand two hundred"; digit by digit from 19 digits on."""
    number = number.lstrip("0") or "0"
    if len(number) > _LONGEST_CARDINAL_DIGITS:
        return digits(number)
    value = int(number)
    if value == 0:
        return _UNITS[0]
    words: list[str] = []
    for power in reversed(range(len(_SCALES))):
        group = value // 1000**power % 1000
        if group:
            words += _below_thousand(group)
            if power:
                words.append(_SCALES[power])
    return " ".join(words)


def _below_thousand(value: int) -> list[str]:
    words: list[str] = []
    if value >= 100:
        words += [_UNITS[value // 100], "hundred"]
        value %= 100
    if value >= 20:
        words.append(_TENS[value // 10])
        value %= 10
        if value:
            words.append(_UNITS[value])
    elif value:
        words.append(_UNITS[value])
    return words


def ordinal(number: str) -> str:
    """``21`` as "twenty first"."""
    return ordinal_of_words(cardinal(number))


def ordinal_of_words(words: str) -> str:
    """Make the last word of a cardinal an ordinal."""
    head, _, last = words.rpartition(" ")
    if last in _ORDINALS:
        last = _ORDINALS[last]
    elif last.endswith("y"):
        last = last[:-1] + "ieth"
    else:
        last += "th"
    return f"{head} {last}".strip()


def decimal(number: str) -> str:
    """``3.05`` as "three point zero five"; also whole numbers and ``.5``."""
    whole, point, fraction = number.partition(".")
    spoken = cardinal(whole) if whole else "zero"
    return f"{spoken} point {digits(fraction)}" if point and fraction else spoken


def year(number: str) -> str:
    """A year of four digits: "nineteen ninety eight", "two thousand five", "twenty ten"."""
    if len(number) != 4:
        return cardinal(number)
    century, rest = number[:2], number[2:]
    if number[1:3] == "00":
        return cardinal(number)
    if rest == "00":
        return f"{cardinal(century)} hundred"
    if rest[0] == "0":
        return f"{cardinal(century)} oh {cardinal(rest)}"
    return f"{cardinal(century)} {cardinal(rest)}"


def plural(words: str) -> str:
    """The plural of the last word of a number: "nineties", "thousands"."""
    if words.endswith(_PLURAL_IES):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith(("x", "s")) else "s")


def room(number: str) -> str:
    """Three digits as for rooms and flights: "one oh one", "four twenty"; others as pairs or digits."""
    if len(number) == 3 and number[0] != "0":
        if number[1:] == "00":
            return f"{_UNITS[int(number[0])]} hundred"
        return f"{_UNITS[int(number[0])]} {pair(number[1:])}"
    if len(number) == 4 and number[0] != "0" and number[2:] != "00":
        return f"{pair(number[:2])} {pair(number[2:])}"
    return digits(number, "oh")


def pair(two: str) -> str:
    """Two digits: "oh five", "forty two", "oh oh"."""
    if two[0] == "0":
        return digits(two, "oh")
    return cardinal(two)
