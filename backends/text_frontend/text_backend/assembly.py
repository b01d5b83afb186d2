"""From espeak-ng's clauses to the symbols of one sentence, in the form that Piper voices are trained with."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from text_backend.espeak import Clause
from text_backend.g2p.base import Symbols
from text_backend.splitting import Cut

_LANGUAGE_FLAGS = re.compile(r"\([^()]+\)")
_PAUSING = (",", ":", ";")
_STRESS = "\u02c8\u02cc"
_SPREADING = "\u02d0\u02d1\u02de\u02b0\u02b2\u02b7\u02e4"
# length marks and modifier letters say something about the symbol before them


def assemble(pieces: Sequence[Sequence[Clause]]) -> Symbols:
    """Join the clauses of one sentence.

    As piper-tts does: flags of a language switch removed, the clause's terminator appended, a blank after ``,``,
    ``:`` and ``;``, then NFD, one symbol per code point. Different from it: a sentence end that espeak-ng sees
    inside the sentence ("Dr.") is a joint, so its full stop goes; and clauses without a terminator between them
    ("Hello... there") stay apart by a blank, where piper-tts runs the words together.

    Args:
        pieces: clauses of each piece of the sentence, see :mod:`text_backend.espeak_limits`.
    """
    clauses = [clause for piece in pieces for clause in piece]
    spoken = [(_LANGUAGE_FLAGS.sub("", clause.phonemes), clause) for clause in clauses]
    last = max((index for index, (phonemes, _) in enumerate(spoken) if phonemes.strip()), default=-1)
    symbols: list[str] = []
    cuts: list[Cut] = []
    for index, (phonemes, clause) in enumerate(spoken[: last + 1]):
        terminator = clause.terminator
        if index < last and clause.ends_sentence and terminator == ".":
            terminator = ""
        blank = " " if terminator in _PAUSING or index < last else ""
        if index < last and not phonemes.strip() and not terminator:
            continue
        decomposed = unicodedata.normalize("NFD", phonemes + terminator + blank)
        symbols += decomposed
        cuts += map(_CUTS.__getitem__, zip(decomposed, decomposed[1:] + "\0", strict=True))
        cuts[-1] = Cut.CLAUSE
    return Symbols(symbols, cuts)


class _Cuts(dict[tuple[str, str], Cut]):
    """How good a cut between two symbols is; there are few pairs, and each is asked for thousands of times."""

    def __missing__(self, pair: tuple[str, str]) -> Cut:
        symbol, following = pair
        if symbol == " ":
            cut = Cut.WORD
        elif symbol in _STRESS or following in _SPREADING or unicodedata.combining(following):
            cut = Cut.NEVER
        else:
            cut = Cut.HARD
        self[pair] = cut
        return cut


_CUTS = _Cuts()
