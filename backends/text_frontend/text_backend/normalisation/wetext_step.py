"""Chinese numbers in their context by wetext (WFST grammars, Apache-2.0): 2个, 98年, 第3, 5号楼.

wetext reads whole strings and is slow on long ones (about 6 ms for a sentence, more than linear beyond 1,000
characters), so it is shown one number with a little context at a time. Its English grammar is not used: version 0.1.8
says "thousand two hundred" for $1,299.50, "one hundred minutes" for 100m, and fails on "#1".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

from text_backend.mapped import Edit, MappedText
from text_backend.normalisation import numbers_zh
from text_backend.normalisation.rules.base import HAN, is_mixed, language_at

_CONTEXT_BEFORE = 2
_CONTEXT_AFTER = 3
_NUMBER = re.compile(r"\d{1,24}(?:\.\d{1,12})?(?:[年月日号时点分秒]\d{1,4}(?:\.\d{1,4})?){0,5}[多几]?[百千万亿]{0,2}")
_NOT_CONTEXT = re.compile(f"[^{HAN}]")
_DIGIT = re.compile(r"\d")
_GROUPED = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3}){1,5}(?![\d,])")


class Grammar(Protocol):
    """What is needed of ``wetext.Normalizer``."""

    def normalize(self, text: str) -> str:
        """The spoken form of ``text``."""


@lru_cache(maxsize=1)
def _grammar() -> Grammar:
    # 40 MB of grammars: only for voices that read Chinese, and only once they meet a number
    from wetext import Normalizer

    grammar: Grammar = Normalizer(lang="zh", operator="tn")
    return grammar


def numbers_to_words(text: MappedText) -> MappedText:
    """Say the numbers that no rule has said, in Chinese text."""
    if _DIGIT.search(text.text) is None:
        return text
    text = text.sub(_GROUPED, lambda match: match.group().replace(",", ""))
    edits: list[Edit] = []
    characters = text.text
    mixed = is_mixed(characters, "zh")
    for match in _NUMBER.finditer(characters):
        if mixed and language_at(characters, match.start(), match.end(), "zh") != "zh":
            continue
        start, end = match.span()
        before = _context_before(characters[max(0, start - _CONTEXT_BEFORE) : start])
        after = _context_after(characters[end : end + _CONTEXT_AFTER])
        spoken = _say(before, match.group(), after)
        edits.append(Edit(start, end, spoken))
    return text.edit(edits)


@lru_cache(maxsize=8192)
def _context_before(nearby: str) -> str:
    """The Chinese characters at the end of ``nearby``."""
    breaks = [match.end() for match in _NOT_CONTEXT.finditer(nearby)]
    return nearby[breaks[-1] :] if breaks else nearby


@lru_cache(maxsize=8192)
def _context_after(nearby: str) -> str:
    """The Chinese characters that ``nearby`` begins with."""
    stop = _NOT_CONTEXT.search(nearby)
    return nearby[: stop.start()] if stop else nearby


@lru_cache(maxsize=8192)
def _say(before: str, number: str, after: str) -> str:
    """Words of ``number``; the context must come back unchanged, else wetext is asked without it."""
    for left, right in ((before, after), ("", after), ("", "")):
        try:
            spoken = _grammar().normalize(left + number + right)
        except (AssertionError, RuntimeError, IndexError, ValueError):
            # wetext 0.1.8 asserts on strings its grammar has no path for
            continue
        kept = spoken.startswith(left) and spoken.endswith(right)
        inner = spoken[len(left) : len(spoken) - len(right)] if kept else ""
        if inner and _DIGIT.search(inner) is None:
            return inner
    return _DIGITS_IN.sub(lambda match: numbers_zh.decimal(match.group()), number)


_DIGITS_IN = re.compile(r"\d+(?:\.\d+)?")
