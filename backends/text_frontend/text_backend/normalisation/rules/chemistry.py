"""Chemical formulas (H2O, Fe2O3) and fine dust (PM2.5): letters by name, numbers as numbers."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_ELEMENTS = (
    "He|Li|Be|Ne|Na|Mg|Al|Si|Cl|Ar|Ca|Cr|Mn|Fe|Co|Ni|Cu|Zn|Br|Kr|Ag|Sn|Ba|Pt|Au|Hg|Pb|Ti|As|H|B|C|N|O|F|P|S|K|I|V|W|U"
)
_FORMULA = pattern(
    rf"(?<![A-Za-z0-9])(?=[A-Za-z()]{{0,8}}\d)((?:(?:{_ELEMENTS}|\((?:{_ELEMENTS}|\d){{1,6}}\))\d{{0,2}}){{1,10}})"
    r"(?![A-Za-z0-9]|[.,]\d)"
)
_DUST = pattern(r"(?<![A-Za-z0-9])PM[ ]?(2\.5|10|1\.0)(?![\d.]*\d)")
_TOKEN = pattern(r"[A-Za-z]|\d+")


def _formula(match: re.Match[str], language: str) -> str | None:
    formula = match.group()
    if sum(character.isupper() for character in formula) < 2 and formula not in ("O2", "O3", "N2", "H2", "Cl2", "F2"):
        return None  # A4, C3 and the like are models or sizes
    tokens = _TOKEN.findall(formula)
    if language == "zh":
        return "".join(numbers_zh.cardinal(token) if token.isdigit() else token.upper() for token in tokens)
    return " ".join(numbers_en.cardinal(token) if token.isdigit() else token.upper() for token in tokens)


def _dust(match: re.Match[str], language: str) -> str:
    if language == "zh":
        return "PM" + numbers_zh.decimal(match.group(1))
    return "P M " + numbers_en.decimal(match.group(1))


RULES = (Rule("fine dust", _DUST, _dust), Rule("formula", _FORMULA, _formula))
