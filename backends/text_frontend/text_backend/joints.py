"""Where one written word was said as several, and the words must not run together: "caf\u00e92", "6'2", "A380"."""

from __future__ import annotations

import re

from text_backend import dropping
from text_backend.mapped import Edit, MappedText
from text_backend.normalisation.rules.base import HAN

_SCALES = "十百千万亿兆元"
"""Said in English too where they belong to a sum of money."""
_APOSTROPHES = "'\u2019"
_COUNTERS = re.compile(f"(?<![{HAN}])[{HAN}]+(?=[ ]?[0-9])|(?<=[0-9])(?![{_SCALES}])[{HAN}]+")
_JOINT = re.compile(r"(?<=[^\W_])(?=[^\W_])(?:(?<=[^\x00-\x7f])|(?=[^\x00-\x7f]))|(?<=[^\W_]['\u2019])(?=[^\W_])")
"""Between letters that the rules leave together: they part ASCII ones."""
_LETTER_A = re.compile(r"(?<![^\W_])A(?= [a-z])")


def parted(spoken: MappedText, source: str) -> MappedText:
    """``spoken`` with a blank between a number's words and a letter that was written next to its digits.

    Args:
        spoken: a sentence with its numbers in words.
        source: the request's text.
    """
    text, starts, ends = spoken.text, spoken.starts, spoken.ends
    edits: list[Edit] = []
    for match in _JOINT.finditer(text):
        at = match.start()
        if starts[at - 1] == starts[at]:
            continue
        was_number = _is_digit(source, starts[at]) and not text[at].isdigit()
        if text[at - 1] in _APOSTROPHES:
            glued = was_number
        else:
            glued = was_number != (_is_digit(source, ends[at - 1] - 1) and not text[at - 1].isdigit())
        if glued:
            edits.append(Edit(at, at, " "))
    return spoken.edit(edits) if edits else spoken


def without_foreign_counters(text: MappedText) -> MappedText:
    """An English text without the Chinese characters next to its digits, counted as unreadable.

    They have no sound there, but rules would take the numbers between them for Chinese ones, which have none either.
    """
    if text.text.isascii():
        return text
    edits: list[Edit] = []
    for match in _COUNTERS.finditer(text.text):
        start, end = match.span()
        edits += [Edit(start, start, " "), Edit(start, end, "", dropping.UNREADABLE)]
    return text.edit(edits) if edits else text


def letters_apart(spoken: MappedText) -> str:
    """The text with a hyphen behind each "A" that was written as one word with the number after it.

    "A three eighty" is the aeroplane A380, but "A three" the beginning of "A 3D printer".
    """
    text = spoken.text
    if "A " not in text:
        return text
    return _LETTER_A.sub(
        lambda match: "A-" if spoken.starts[match.end() + 1] <= spoken.ends[match.start()] else "A", text
    )


def _is_digit(source: str, at: int) -> bool:
    return 0 <= at < len(source) and source[at].isdigit()
