"""Arithmetic between numbers: fractions, powers, products, signs."""

from __future__ import annotations

import re
import unicodedata

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_MIXED = pattern(r"(?<![\w.,/:-])(\d{1,4})[ ](\d{1,2})/(\d{1,3})(?![\w/]|[.,]\d)")
_MIXED_HYPHEN = pattern(r"(?<![\w.,/:-])(\d{1,3})-(\d{1,2})/(2|3|4|8|16|32)(?![\w/]|[.,]\d)[ ]?([\"\u2033\u201d])?")
_HAN_FRACTION = pattern(r"(?<![\d.])(\d{1,6})分之(\d{1,6}(?:\.\d{1,4})?)")
_FRACTION = pattern(
    r"(?<![\w.,/:])(?<!\d-)(-?)(\d{1,5})/(\d{1,5})(?:(?<=[^1]3)rd|(?<=[^1]2)nd|(?<=\d)ths?)?(?![\w/]|[.,]\d)"
)
_SCIENTIFIC = pattern(r"(?<![\w.,/:])(-?)(\d{1,4}(?:\.\d{1,12})?)[eE]([+-]?)(\d{1,3})(?![\w.])")
_POWER = pattern(r"(?<=[\w)])\^(-?)(\d{1,3})(?![\w.])")
_SUPERSCRIPT = pattern(
    "(?<=[\\w)])(?:(\u207b)([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,3})"
    "|([\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{2,3}))"
)
_CHARGE = pattern(
    "(?<=[A-Za-z0-9)\\]])([\u00b9\u00b2\u00b3\u2074-\u2079]?)([\u207a\u207b])(?![\u2070\u00b9\u00b2\u00b3\u2074-\u2079])"
)
_BETWEEN = pattern(r"(?<=[\d)%\u00b2\u00b3])[ \t]{0,2}([-+*/=<>\u00d7\u00f7xX\u2212]|==)[ \t]{0,2}(?=[\d(.]|-\d)")
_NEGATIVE = pattern(r"(?<![\w.,%)\]\u00b2\u00b3-])[-\u2212](?=\d|\.\d)")
_PLUS_MINUS = pattern(r"\u00b1[ ]?(?=\d)")
_ABOUT = pattern(r"(?<![\w.)\]~])~(?=\d)")
_PRODUCT = pattern(
    r"(?<![A-Za-z0-9.])(\d{1,6}(?:\.\d{1,3})?)[ ]?[xX\u00d7][ ]?(\d{1,6}(?:\.\d{1,3})?)"
    r"(?:[ ]?[xX\u00d7][ ]?(\d{1,6}(?:\.\d{1,3})?))?"
    r"(?![A-Za-z0-9]|\.\d)"
)
_SAID_PLAIN = {("9", "11"), ("20", "20")}
_HALVES = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
_SIGNS = {
    "+": ("加", "plus"),
    "-": ("减", "minus"),
    "\u2212": ("减", "minus"),
    "*": ("乘", "times"),
    "\u00d7": ("乘", "times"),
    "x": ("乘", "by"),
    "X": ("乘", "by"),
    "/": ("除以", "divided by"),
    "\u00f7": ("除以", "divided by"),
    "=": ("等于", "equals"),
    "==": ("等于", "equals"),
    "<": ("小于", "is less than"),
    ">": ("大于", "is greater than"),
}


def _en_fraction(top: str, bottom: str) -> str:
    if int(bottom) in (0, 1) or len(bottom) > 3 or bottom[0] == "0":
        return f"{numbers_en.cardinal(top)} over {numbers_en.cardinal(bottom)}"
    one, many = _HALVES.get(bottom, (numbers_en.ordinal(bottom), numbers_en.ordinal(bottom) + "s"))
    return f"{numbers_en.cardinal(top)} {one if int(top) == 1 else many}"


def _mixed(match: re.Match[str], language: str) -> str:
    whole, top, bottom = match.groups()
    if language == "zh":
        return f"{numbers_zh.cardinal(whole)}又{numbers_zh.cardinal(bottom)}分之{numbers_zh.cardinal(top)}"
    fraction = _en_fraction(top, bottom)
    return f"{numbers_en.cardinal(whole)} and {fraction.replace('one ', 'a ', 1) if top == '1' else fraction}"


def _mixed_hyphen(match: re.Match[str], language: str) -> str | None:
    """1-1/2" is one and a half inches."""
    whole, top, bottom, inches = match.groups()
    if language != "en" or int(top) >= int(bottom):
        return None
    fraction = _en_fraction(top, bottom)
    fraction = fraction.replace("one ", "a ", 1) if top == "1" else fraction
    return f"{numbers_en.cardinal(whole)} and {fraction}{' inches' if inches else ' '}"


def _han_fraction(match: re.Match[str], language: str) -> str:
    del language
    return f"{numbers_zh.cardinal(match.group(1))}分之{numbers_zh.decimal(match.group(2))}"


def _fraction(match: re.Match[str], language: str) -> str:
    minus, top, bottom = match.groups()
    if language == "en" and ((top, bottom) in _SAID_PLAIN or (top == bottom and len(top) == 2)):
        return f"{numbers_en.cardinal(top)} {numbers_en.cardinal(bottom)}"
    if (top, bottom) == ("24", "7"):
        return "二十四小时七天" if language == "zh" else "twenty four seven"
    if language == "zh":
        return f"{'负' if minus else ''}{numbers_zh.cardinal(bottom)}分之{numbers_zh.cardinal(top)}"
    return ("minus " if minus else "") + _en_fraction(top, bottom)


def _scientific(match: re.Match[str], language: str) -> str:
    minus, base, sign, power = match.groups()
    if language == "zh":
        exponent = ("负" if sign == "-" else "") + numbers_zh.cardinal(power)
        return f"{'负' if minus else ''}{numbers_zh.decimal(base)}乘十的{exponent}次方"
    exponent = ("minus " if sign == "-" else "") + numbers_en.cardinal(power)
    return f"{'minus ' if minus else ''}{numbers_en.decimal(base)} times ten to the {exponent}"


def _power(match: re.Match[str], language: str) -> str:
    minus, power = match.groups()
    if language == "zh":
        named = {"2": "平方"}.get(power) if not minus else None
        return f"的{named or ('负' if minus else '') + numbers_zh.cardinal(power) + '次方'}"
    named = {"2": "squared", "3": "cubed"}.get(power) if not minus else None
    return f" {named or 'to the ' + ('minus ' if minus else '') + numbers_en.cardinal(power)}"


def _superscript(match: re.Match[str], language: str) -> str:
    minus, negative, positive = match.groups()
    power = "".join(str(unicodedata.digit(digit)) for digit in negative or positive)
    if language == "zh":
        return f"的{'负' if minus else ''}{numbers_zh.cardinal(power)}次方"
    return f" to the {'minus ' if minus else ''}{numbers_en.cardinal(power)}"


def _charge(match: re.Match[str], language: str) -> str:
    """Ca²⁺ has a charge, no power."""
    number, sign = match.groups()
    zh, en = ("正", "plus") if sign == "\u207a" else ("负", "minus")
    digit = str(unicodedata.digit(number)) if number else ""
    if language == "zh":
        return (numbers_zh.cardinal(digit) if digit else "") + zh
    return f" {numbers_en.cardinal(digit) + ' ' if digit else ''}{en}"


def _product(match: re.Match[str], language: str) -> str:
    factors = [factor for factor in match.groups() if factor]
    if language == "zh":
        return "乘".join(numbers_zh.decimal(factor) for factor in factors)
    by = " times " if "\u00d7" in match.group() else " by "
    return by.join(numbers_en.decimal(factor) for factor in factors)


def _between(match: re.Match[str], language: str) -> str:
    zh, en = _SIGNS[match.group(1)]
    return zh if language == "zh" else f" {en} "


HYPHENATED = (Rule("fraction", _MIXED_HYPHEN, _mixed_hyphen), Rule("fraction", _HAN_FRACTION, _han_fraction))
"""Before what reads dates and ranges."""
CHARGES = (Rule("charge", _CHARGE, _charge),)
RULES = (
    Rule("fraction", _MIXED, _mixed),
    Rule("fraction", _FRACTION, _fraction),
    Rule("scientific notation", _SCIENTIFIC, _scientific),
    Rule("power", _POWER, _power),
    Rule("power", _SUPERSCRIPT, _superscript),
    Rule("product", _PRODUCT, _product),
)
SIGNS = (
    Rule("about", _ABOUT, lambda match, language: "约" if language == "zh" else "approximately "),
    Rule("arithmetic", _BETWEEN, _between),
    Rule("plus or minus", _PLUS_MINUS, lambda match, language: "正负" if language == "zh" else " plus or minus "),
    Rule("negative", _NEGATIVE, lambda match, language: "负" if language == "zh" else "minus "),
)
