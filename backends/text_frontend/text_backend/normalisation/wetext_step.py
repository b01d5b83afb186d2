"""Chinese numbers in their context: by :mod:`quantities`, and what that leaves by wetext (WFST grammars, Apache-2.0).

wetext reads whole strings and is slow on long ones (about 6 ms for a sentence, more than linear beyond 1,000
characters), so it is shown one number with a little context at a time: 0.4 ms for each that it has not met, and for
:data:`ASKED_PER_TEXT` different ones of a text at most. Its English grammar is not used: version 0.1.8 says
"thousand two hundred" for $1,299.50, "one hundred minutes" for 100m, and fails on "#1".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from text_backend.mapped import Edit, MappedText
from text_backend.normalisation import grammars, numbers_zh, quantities
from text_backend.normalisation.rules.base import HAN, is_mixed, language_at

ASKED_PER_TEXT = 32
"""Different numbers of a text that wetext is asked about; those after them are read part by part."""
_JOINED = re.compile(r"[年月日号时点分秒]\d", re.ASCII)
_NOT_CONTEXT = re.compile(f"[^{HAN}]")
_DIGIT = re.compile(r"\d")
_GROUPED = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3}){1,5}(?![\d,])")


def numbers_to_words(text: MappedText) -> MappedText:
    """Say the numbers that no rule has said, in Chinese text."""
    if _DIGIT.search(text.text) is None:
        return text
    text = text.sub(_GROUPED, lambda match: match.group().replace(",", ""))
    return text.edit(
        [
            Edit(
                *match.span(),
                _say(*_in_context(text.text, match)) if rest else quantities.read(*_near(text.text, match)),
            )
            for match, rest in _numbers(text.text)
        ]
    )


def read_beyond_allowance(text: MappedText) -> MappedText:
    """Read, of a whole text, the numbers for which wetext would be asked too often.

    What it is asked about depends on the text alone: the first :data:`ASKED_PER_TEXT` different ones.
    """
    if _JOINED.search(text.text) is None:
        return text
    asked: set[tuple[str, str, str]] = set()
    edits: list[Edit] = []
    for match, rest in _numbers(text.text):
        if not rest:
            continue
        key = _in_context(text.text, match)
        if key not in asked and len(asked) == ASKED_PER_TEXT:
            edits.append(Edit(*match.span(), quantities.read(*_near(text.text, match))))
        else:
            asked.add(key)
    return text.edit(edits)


def _numbers(characters: str) -> Iterator[tuple[re.Match[str], bool]]:
    """The numbers to be read in Chinese, and whether they are left to wetext."""
    mixed = is_mixed(characters, "zh")
    joined = _JOINED.search(characters) is not None
    for match in quantities.NUMBER.finditer(characters):
        if not mixed or language_at(characters, match.start(), match.end(), "zh") == "zh":
            yield match, joined and not quantities.is_plain(match.group())


def _near(characters: str, match: re.Match[str]) -> tuple[str, str, str]:
    start, end = match.span()
    before = characters[max(0, start - quantities.CONTEXT_BEFORE) : start]
    return before, match.group(), characters[end : end + quantities.CONTEXT_AFTER]


def _in_context(characters: str, match: re.Match[str]) -> tuple[str, str, str]:
    """The number with the Chinese next to it."""
    before, number, after = _near(characters, match)
    return _context_before(before), number, _context_after(after)


@lru_cache(maxsize=1024)
def _context_before(nearby: str) -> str:
    """The Chinese characters at the end of ``nearby``."""
    breaks = [match.end() for match in _NOT_CONTEXT.finditer(nearby)]
    return nearby[breaks[-1] :] if breaks else nearby


@lru_cache(maxsize=1024)
def _context_after(nearby: str) -> str:
    """The Chinese characters that ``nearby`` begins with."""
    stop = _NOT_CONTEXT.search(nearby)
    return nearby[: stop.start()] if stop else nearby


@lru_cache(maxsize=1024)
def _say(before: str, number: str, after: str) -> str:
    """Words of ``number``; the context must come back unchanged, else wetext is asked without it."""
    for left, right in ((before, after), ("", after), ("", "")):
        try:
            spoken = grammars.numbers().normalize(left + number + right)
        except (AssertionError, RuntimeError, IndexError, ValueError):
            # wetext 0.1.8 asserts on strings its grammar has no path for
            continue
        kept = spoken.startswith(left) and spoken.endswith(right)
        inner = spoken[len(left) : len(spoken) - len(right)] if kept else ""
        if inner and _DIGIT.search(inner) is None:
            return inner
    return _DIGITS_IN.sub(lambda match: numbers_zh.decimal(match.group()), number)


_DIGITS_IN = re.compile(r"\d+(?:\.\d+)?")
