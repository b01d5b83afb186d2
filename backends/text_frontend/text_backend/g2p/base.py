"""What a grapheme-to-phoneme step gives, whatever the language.

There are two kinds. Alphabetic languages have a *phonemizer* that reads sentences as clauses of IPA
(:class:`text_backend.g2p.clauses.Phonemizer`: espeak-ng, or any other with that method) and share
:class:`text_backend.g2p.clauses.ClauseG2P`. Mandarin reads characters itself (:mod:`text_backend.g2p.mandarin`).
Both are a :class:`G2P`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from text_backend.mapped import Drop, MappedText, Span
from text_backend.splitting import Cut

PROSODY_MARKS = frozenset({" ", "#0", "#1", "#2", "#3", "#4", "sil", "pad", "eos"})
"""Symbols without a sound of their own that may be cut off at the ends of a part."""

ObserveText = Callable[[str, str], None]
"""Told of a step inside the conversion: its name, and what came out."""


@dataclass(frozen=True)
class Symbols:
    """Symbols of one sentence.

    Attributes:
        symbols: names in the voice's inventory, before substitution.
        cuts: how good it is to cut after each.
        spans: source span of each symbol; empty where the phonemizer does not tell.
        drops: source characters that got no symbol.
        marks: source of the marks that make a pause or are part of a word (:mod:`text_backend.g2p.marks`).
    """

    symbols: list[str]
    cuts: list[Cut]
    spans: list[Span] = field(default_factory=list)
    drops: tuple[Drop, ...] = ()
    marks: tuple[Span, ...] = ()

    @property
    def has_sound(self) -> bool:
        """Whether there is more than punctuation, blanks and prosody marks."""
        return any(symbol[0].isalpha() and symbol not in PROSODY_MARKS for symbol in self.symbols)


class G2P(Protocol):
    """Turns sentences into symbols."""

    def convert(self, sentences: Sequence[MappedText], observe: ObserveText | None = None) -> list[Symbols]:
        """Symbols of each sentence, in order. Every character ends as a symbol, a pause or a drop.

        Raises:
            Unavailable: the phonemizer cannot answer now.
        """

    def parse_pronunciation(self, written: str) -> list[str]:
        """Symbols for a pronunciation of a lexicon file.

        Raises:
            ValueError: with a sentence that says what is wrong with it.
        """
