"""Hostile texts: one unit over and over, and mixtures drawn at random."""

from __future__ import annotations

import random

LONG_CHARS, CAPPED_CHARS = 100_000, 4096
"""Lengths: far above the usual limit of a request, and just at it."""

UNITS = [
    "7", "1,", "1/", "1:", "*a", "[[a", "(", "\u201c", "http://a.b/", "www.a.com ", "你", "一不", "$1", "1%", "\u0301a",
    "\u0301", "得还", "a@", "@", "1-", "½", "①", "Ⅷ", "№", "㎡", "²", "\\", "\\n", "1\n", "# a\n", "- a\n", "> ", "a",
    "hello ", "你hello", "好1", "第1", "1e5", "x^2", "| a |", "_a_", "&amp;", "<b>", "\U0001f600", "\u200b", "\ue123",
    "привет",
    "2024-01-01 ", "A4", "H2", "'a", "a'", "e.g. ", "U.S.", "III ", "and/or ", "1-2-3-",
]  # fmt: skip
MIXTURES = {
    "numerals": "½⅓¼①②⑩ⅧⅣ³²㎡№",
    "digits and signs": "0123456789+-*/=%$€.,:;",
    "Chinese": "".join(map(chr, range(0x4E00, 0x5800))),
    "Chinese and numbers": "年月日第点号一不得还了着0123456789 ",
    "letters": "abcdefghijklmnopqrstuvwxyzABCDEF ",
    "brackets and quotes": "()[]{}<>\"'“”‘’«»「」『』ab",
    "layout": "#*_~`|>-+=\\\n a",
}
KINDS = (*UNITS, *MIXTURES)


def repeated(unit: str, length: int) -> str:
    """``unit`` until the text has ``length`` characters."""
    return (unit * length)[:length]


def mixed(name: str, length: int, seed: int) -> str:
    """A mixture; each ``seed`` gives another text, so that no memory of what was read before hides the work."""
    return "".join(random.Random(seed).choices(MIXTURES[name], k=length))


def text(kind: str, length: int, seed: int) -> str:
    """A text of one of :data:`KINDS`."""
    return mixed(kind, length, seed) if kind in MIXTURES else repeated(kind, length)
