"""The English phonemizer: clauses of IPA as espeak-ng's voice ``en-us`` writes them, from sources of its own."""

from __future__ import annotations

from collections.abc import Sequence

from text_backend.espeak import Clause
from text_backend.g2p.english.connected import Spoken, connect
from text_backend.g2p.english.dictionary import read_dictionary
from text_backend.g2p.english.letter_to_sound import LetterToSound
from text_backend.g2p.english.pronunciation import Pronouncer, Unlisted
from text_backend.g2p.english.tokens import Token, TokenClause, clauses


class EnglishPhonemizer:
    """Reads American English. In this process, without state between calls but caches of words.

    Takes 30 MB and loads in 0.1 s; a call from several threads at once is safe.
    """

    def __init__(self) -> None:
        self._pronouncer = Pronouncer(read_dictionary(), LetterToSound())

    def start(self) -> str:
        """Nothing to start; says what it reads from."""
        return "CMU Pronouncing Dictionary"

    def phonemize(self, texts: Sequence[str]) -> list[list[Clause]]:
        """Clauses of each text, in order."""
        unlisted = Unlisted()
        return [[self._clause(clause, unlisted) for clause in clauses(text, self._pronouncer.knows)] for text in texts]

    def close(self) -> None:
        """Nothing to end; here so that it can stand where a process stands."""

    def _clause(self, clause: TokenClause, unlisted: Unlisted) -> Clause:
        keys = ["", *("" if word.spelled else word.text.lower() for word in clause.words), ""]
        spoken = [
            self._spoken(word, unlisted, before, key, after)
            for word, before, key, after in zip(clause.words, keys, keys[1:], keys[2:], strict=False)
        ]
        return Clause(connect(spoken), clause.terminator, clause.ends_sentence)

    def _spoken(self, word: Token, unlisted: Unlisted, before: str, key: str, after: str) -> Spoken:
        if word.spelled:
            return Spoken("", self._pronouncer.spelled(word.text), word.glued)
        return Spoken(key, self._pronouncer.word(word.text, unlisted, before, after), word.glued)
