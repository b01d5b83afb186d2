"""Scores and ratios: 3:2."""

from __future__ import annotations

import re

from text_backend.normalisation import numbers_en, numbers_zh
from text_backend.normalisation.rules.base import Rule, pattern

_SCORED = pattern(
    r"((?:比分|战胜|大胜|险胜|击败|战平|总分|领先|落后|以|胜|负|比"
    r"|平)[^\d，。,\n]{0,8}?)(\d{1,3})[ ]?[:：\-\u2013\u2014][ ]?(\d{1,3})(?![\d:.\-]*\d|[年月日点号%])"
)
_SCORE_FIRST = pattern(
    r"(?<![\d:.-])(\d{1,3})[ ]?[:\-\u2013][ ]?(\d{1,3})(?=战胜|击败|大胜|险胜|力克|获胜"
    r"|取胜|战平|负于|不敌|领先|落后|逆转|完胜)"
)
_EN_SCORED = pattern(
    r"\b((?:won|lost|win|lose|beat|beats|score|scored|led|lead|leading|trailed|trailing|tied|final|finished|drew|defeated)\b"
    r"[^\d\n.!?]{0,32}?)(\d{1,3})[ ]?[-\u2013:][ ]?(\d{1,3})(?![\d:.\-]*\d)",
    re.IGNORECASE,
)
_RATIO = pattern(r"(?<![\w.:,/-])(\d{1,6}(?:\.\d{1,4})?)[ ]?:[ ]?(\d{1,6}(?:\.\d{1,4})?)(?![\d:]|\.\d)")
_RATIO3 = pattern(r"(?<![\w.:,/-])(\d{1,3}):(\d{1,3}):(\d{1,3})(?![\d:])")


def _scored(match: re.Match[str], language: str) -> str:
    del language
    lead, left, right = match.groups()
    return f"{lead}{numbers_zh.cardinal(left)}比{numbers_zh.cardinal(right)}"


def _en_scored(match: re.Match[str], language: str) -> str | None:
    del language
    lead, left, right = match.groups()
    return f"{lead}{numbers_en.cardinal(left)} to {numbers_en.cardinal(right)}"


def _ratio(match: re.Match[str], language: str) -> str:
    left, right = match.groups()
    if language == "zh":
        return f"{numbers_zh.decimal(left)}比{numbers_zh.decimal(right)}"
    return f"{numbers_en.decimal(left)} to {numbers_en.decimal(right)}"


def _ratio3(match: re.Match[str], language: str) -> str:
    if language == "zh":
        return "比".join(numbers_zh.cardinal(part) for part in match.groups())
    return " to ".join(numbers_en.cardinal(part) for part in match.groups())


def _score_first(match: re.Match[str], language: str) -> str:
    del language
    return f"{numbers_zh.cardinal(match.group(1))}比{numbers_zh.cardinal(match.group(2))}"


SCORES = (
    Rule("score", _SCORE_FIRST, _score_first),
    Rule("score", _SCORED, _scored),
    Rule("score", _EN_SCORED, _en_scored),
)
RATIOS = (Rule("ratio", _RATIO3, _ratio3), Rule("ratio", _RATIO, _ratio))
