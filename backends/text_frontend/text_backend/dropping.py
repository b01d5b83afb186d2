"""Why a character was not spoken. Every drop has one of these reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from text_backend.mapped import Drop

EMOJI = "emoji"
"""A picture, passed over because the voice's policy says so."""
MARKUP = "markup"
"""Signs of layout: Markdown, HTML tags, link targets, ruled lines."""
INVISIBLE = "invisible"
"""Joiners, direction marks, soft hyphens, byte order marks."""
CONTROL = "control"
"""Control characters, unassigned and private code points."""
UNREADABLE = "unreadable"
"""A letter of a script for which the voice has no reading."""
SYMBOL = "symbol"
"""A sign that has no name in the language."""
SILENT = "silent"
"""A letter or digit that the grapheme-to-phoneme step gave no sound to."""
PUNCTUATION = "punctuation"
"""A mark that makes no pause where it stands (see :mod:`text_backend.g2p.marks`)."""

LOSSES = frozenset({CONTROL, UNREADABLE, SYMBOL, SILENT})
"""Reasons for which a voice with ``on_dropped: reject`` refuses a text; the others lose nothing that has a reading."""


def count(drops: Iterable[Drop]) -> dict[str, int]:
    """Characters dropped for each reason, most first."""
    counter: Counter[str] = Counter()
    for drop in drops:
        counter[drop.reason] += drop.end - drop.start
    return dict(counter.most_common())


def describe(counts: dict[str, int]) -> str:
    """``counts`` as words for a message: ``2 emoji, 1 symbol``."""
    return ", ".join(f"{number} {reason}" for reason, number in counts.items())
