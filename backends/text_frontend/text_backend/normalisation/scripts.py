"""Runs of one script within a sentence: Chinese, Latin, digits, letters of other scripts, marks."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from typing import NamedTuple

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


class Run(NamedTuple):
    """Characters ``start`` to ``end`` of a text."""

    script: Script
    start: int
    end: int


_HAN_LETTERS = f"{HAN}\u3005\u3007"
_LATIN_LETTERS = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_RUN = re.compile(
    f"(?P<han>[{_HAN_LETTERS}]+)|(?P<marks>[\\W_]+)|(?P<latin>[{_LATIN_LETTERS}][{_LATIN_LETTERS}'\u2019]*)"
    f"|(?P<digits>[0-9]+)|(?P<other>(?:(?![{_HAN_LETTERS}{_LATIN_LETTERS}0-9])[^\\W_])+)"
)
_KINDS = {script.value: script for script in Script}


def runs(text: str) -> list[Run]:
    """Cut ``text`` into runs that cover it without gap."""
    return [Run(_KINDS[str(match.lastgroup)], *match.span()) for match in _RUN.finditer(text)]


def script_name(letter: str) -> str:
    """First word of the letter's Unicode name, which for letters is the script; ``?`` without a name."""
    return unicodedata.name(letter, "?").split()[0]
