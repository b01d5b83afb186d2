"""Alphabetic languages: a phonemizer reads sentences as clauses of IPA, which are joined to symbols."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from text_backend import workload
from text_backend.assembly import assemble
from text_backend.espeak_limits import pieces
from text_backend.g2p.base import ObserveText, Symbols
from text_backend.g2p.endings import with_ending
from text_backend.g2p.hearing import Hearing, Phonemizer
from text_backend.joints import letters_apart
from text_backend.lexicon import Lexicon
from text_backend.mapped import MappedText
from text_backend.splitting import Cut

__all__ = ["ClauseG2P", "Phonemizer"]

_MARKS = re.compile("[\"'\u2019\u201d)\\]]*([.,;:!?]+)")
"""Marks after a word, behind the quotes and brackets that close there."""


class ClauseG2P:
    """Symbols by a phonemizer.

    Args:
        phonemizer: reads normalised text.
        lexicon: the voice's own words; they are put between what the phonemizer says.
    """

    def __init__(self, phonemizer: Phonemizer, lexicon: Lexicon | None = None) -> None:
        self._phonemizer = phonemizer
        self._lexicon = lexicon or Lexicon()
        self._hearing = Hearing(phonemizer)

    def convert(self, sentences: Sequence[MappedText], observe: ObserveText | None = None) -> list[Symbols]:
        """Symbols of each sentence; see :class:`text_backend.g2p.base.G2P`. One round trip for all."""
        parts = [self._parts(letters_apart(sentence)) for sentence in sentences]
        asked = [pieces(part) if isinstance(part, str) else [] for sentence in parts for part in sentence]
        answers = self._phonemizer.phonemize([piece for part in asked for piece in part])
        if sentences:
            text_chars = max(sentences[-1].span(0, len(sentences[-1]))[1], 1)
            workload.check_phoneme_ids(text_chars, sum(len(clause.phonemes) for of in answers for clause in of))
        self._hearing.learn(sentences)
        found: list[Symbols] = []
        follows = False
        at = number = 0
        for sentence, its_parts in zip(sentences, parts, strict=True):
            spoken: list[Symbols] = []
            for part in its_parts:
                if isinstance(part, str):
                    count = len(asked[number])
                    spoken.append(assemble(answers[at : at + count]))
                    at += count
                else:
                    spoken.append(part)
                number += 1
            joined = _joined(spoken)
            if observe is not None:
                observe("phonemes", "".join(joined.symbols))
            found.append(self._hearing.account(joined, sentence, follows))
            follows = follows or joined.has_sound
        return found

    def parse_pronunciation(self, written: str) -> list[str]:
        """IPA as single code points after decomposition, as voices of this kind are trained.

        Raises:
            ValueError: there is none.
        """
        if "#" in written:
            raise ValueError("'#' is no sound; a comment has a line of its own that starts with '# '")
        symbols = [symbol for symbol in unicodedata.normalize("NFD", written) if not symbol.isspace()]
        if not symbols:
            raise ValueError("the pronunciation is empty")
        return symbols

    def _parts(self, text: str) -> list[str | Symbols]:
        """The sentence cut at words of the lexicon, which keep the mark behind them: alone it would not be read."""
        parts: list[str | Symbols] = []
        start = 0
        if self._lexicon.pronunciations:
            for at, character in enumerate(text):
                entry = self._lexicon.pronunciation_at(character)
                if entry is not None:
                    if text[start:at].strip():
                        parts.append(text[start:at].strip())
                    start = at + 1
                    if self._lexicon.english:
                        entry, start = with_ending(entry, text, start)
                    mark, start = _mark_after(text, start)
                    cuts = [Cut.NEVER] * (len(entry) - 1) + ([Cut.NEVER, Cut.CLAUSE] if mark else [Cut.WORD])
                    parts.append(Symbols([*entry, *mark], cuts))
        rest = text[start:].strip()
        if rest or not parts:
            parts.append(rest)
        return parts


def _mark_after(text: str, at: int) -> tuple[str, int]:
    """The mark that stands at ``at``, empty for none, and where the text goes on.

    As in :func:`text_backend.assembly.assemble`, a full stop inside the sentence ends an abbreviation.
    """
    match = _MARKS.match(text, at)
    if match is None:
        return "", at
    marks = match.group(1)
    mark = next((m for m in "?!" if m in marks), marks[-1])
    inside = any(character.isalnum() for character in text[match.end() :])
    return ("" if mark == "." and inside else mark), match.end()


def _joined(parts: Sequence[Symbols]) -> Symbols:
    """The parts of a sentence with a blank between words; a mark stands directly after its word."""
    if len(parts) == 1:
        return parts[0]
    symbols: list[str] = []
    cuts: list[Cut] = []
    for part in parts:
        if not part.symbols:
            continue
        if symbols and symbols[-1] != " " and part.symbols[0] not in ".,;:!? ":
            symbols.append(" ")
            cuts.append(Cut.WORD)
        symbols += part.symbols
        cuts += part.cuts
    return Symbols(symbols, cuts)
