"""Runs of one script within a sentence: Chinese, Latin, digits, letters of other scripts, marks."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum

from text_backend.normalisation.rules.base import HAN


class Script(Enum):
    """What a run is made of."""

    HAN = "han"
    LATIN = "latin"
    DIGITS = "digits"
    OTHER = "other"
    """Letters of any other script."""
    MARKS = "marks"
    """White space, punctuation, signs."""


@dataclass(frozen=True)
class Run:
    """Characters ``start`` to ``end`` of a text."""

    script: Script
    start: int
    end: int


_RUN = re.compile(
    f"(?P<han>[{HAN}\u3005\u3007]+)|(?P<latin>[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]"
    "[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff'\u2019]*)"
    r"|(?P<digits>[0-9]+)|(?P<other>[^\W_])|(?P<marks>[\W_])"
)
_KINDS = {"han": Script.HAN, "latin": Script.LATIN, "digits": Script.DIGITS, "other": Script.OTHER}


def runs(text: str) -> list[Run]:
    """Cut ``text`` into runs that cover it without gap."""
    found: list[Run] = []
    for match in _RUN.finditer(text):
        kind = _KINDS.get(match.lastgroup or "", Script.MARKS)
        if found and found[-1].script is kind and kind in (Script.MARKS, Script.OTHER):
            found[-1] = Run(kind, found[-1].start, match.end())
        else:
            found.append(Run(kind, match.start(), match.end()))
    return found


def script_name(letter: str) -> str:
    """First word of the letter's Unicode name, which for letters is the script; ``?`` without a name."""
    return unicodedata.name(letter, "?").split()[0]
