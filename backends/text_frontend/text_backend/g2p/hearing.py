"""Which characters a phonemizer gives a sound, so that none is lost uncounted.

Phonemizers do not tell which phonemes came from which characters. So each character that is not plain is asked for
alone, once: letters and digits without a sound are counted as ``silent``, signs as ``symbol``; marks have the rule of
:mod:`text_backend.g2p.marks`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Protocol

from text_backend import dropping
from text_backend.assembly import assemble
from text_backend.espeak import Clause
from text_backend.g2p import marks
from text_backend.g2p.base import Symbols
from text_backend.mapped import Drop, MappedText, Span

_PAUSING = frozenset(".,;:!?\u2025\u2026\u22ef\u2013\u2014\u2015\u3001\u3002\uff0c\uff61\uff01\uff1f\uff1a\uff1b")
_DASH = re.compile(r"(?<=\s)-+(?=\s)|--+")
_MARK_SIGNS = frozenset("|~`\u00b4")
"""Signs that are written as marks; where they have no sound they are counted as marks are."""
_KNOWN_MAX = 8192

# how each character of a sentence counts, one letter for each, so that groups of marks are found by a pattern
_HEARD, _MARK, _PAUSE, _BLANK, _SILENT, _LOST_SIGN = "hmp bs"
_GROUP = re.compile(f"[{_MARK}{_PAUSE}{_BLANK}]+")
_LOST = re.compile(f"[{_SILENT}{_LOST_SIGN}]")
_REASONS = {_SILENT: dropping.SILENT, _LOST_SIGN: dropping.SYMBOL}


class Phonemizer(Protocol):
    """What reads sentences; :class:`text_backend.espeak.EspeakClient` is one."""

    def phonemize(self, texts: Sequence[str]) -> list[list[Clause]]:
        """Clauses of each text, in order."""


class Hearing:
    """What is heard of a sentence that ``phonemizer`` reads."""

    def __init__(self, phonemizer: Phonemizer) -> None:
        self._phonemizer = phonemizer
        self._kinds: dict[str, str] = {}

    def learn(self, sentences: Iterable[MappedText]) -> None:
        """Ask for the sound of each character that was not met before; one round trip, mostly none."""
        met: set[str] = set().union(*(sentence.text for sentence in sentences))
        new = met - self._kinds.keys()
        if not new:
            return
        if len(self._kinds) + len(new) > _KNOWN_MAX:
            self._kinds, new = {}, met
        asked = []
        for character in new:
            kind = _plain_kind(character)
            if kind is None:
                asked.append(character)
            else:
                self._kinds[character] = kind
        for character, answer in zip(asked, self._phonemizer.phonemize(asked) if asked else [], strict=True):
            self._kinds[character] = _HEARD if assemble([answer]).has_sound else _kind_without_sound(character)

    def account(self, symbols: Symbols, sentence: MappedText, follows: bool) -> Symbols:
        """``symbols`` with the drops and marks of the sentence that they say.

        Args:
            symbols: of the sentence.
            sentence: whose characters were learned.
            follows: whether a sentence was said before this one.
        """
        text = sentence.text
        has_sound = symbols.has_sound
        kinds = "".join(map(self._kinds.__getitem__, text))
        drops = [
            Drop(*sentence.span(match.start(), match.end()), _REASONS[match.group()]) for match in _LOST.finditer(kinds)
        ]
        if not has_sound:
            drops += [Drop(*sentence.span(at, at + 1), dropping.SILENT) for at, c in enumerate(text) if c.isalnum()]
        first_heard = kinds.find(_HEARD) if has_sound else len(text)
        accounted: list[Span] = []
        for match in _GROUP.finditer(kinds):
            start, end = match.span()
            group = match.group()
            if group.isspace():
                continue
            span, counted = marks.outcome(
                sentence,
                start,
                end,
                pauses=_PAUSE in group or _DASH.search(text, max(0, start - 1), end + 1) is not None,
                said_before=0 <= first_heard < start,
                follows=follows,
            )
            drops += counted
            if span is not None:
                accounted.append(span)
        return Symbols(symbols.symbols, symbols.cuts, symbols.spans, tuple(drops), tuple(accounted))


def _plain_kind(character: str) -> str | None:
    """The kind of a character that every phonemizer treats alike; ``None`` for others."""
    if character.isspace():
        return _BLANK
    if character in _PAUSING:
        return _PAUSE
    # marks of the lexicon are for private use
    plain = (character.isascii() and character.isalnum()) or unicodedata.category(character) == "Co"
    return _HEARD if plain else None


def _kind_without_sound(character: str) -> str:
    category = unicodedata.category(character)[0]
    if category == "S" and character not in _MARK_SIGNS:
        return _LOST_SIGN
    return _MARK if category in "SPZC" else _SILENT
