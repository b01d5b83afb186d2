"""The English phonemizer: clauses of IPA as espeak-ng's voice ``en-us`` writes them, from sources of its own."""

from __future__ import annotations

from collections.abc import Sequence

from text_backend.espeak import Clause
from text_backend.g2p.english.connected import Spoken, connect
from text_backend.g2p.english.dictionary import read_dictionary
from text_backend.g2p.english.letter_to_sound import LetterToSound
from text_backend.g2p.english.past_read import is_over, is_past
from text_backend.g2p.english.pronunciation import Pronouncer, Unlisted
from text_backend.g2p.english.tokens import TokenClause, clauses

_READ = frozenset({"read", "Read", "READ"})


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
        cut = [clauses(text, self._pronouncer.knows) for text in texts]
        every = (word for of_text in cut for clause in of_text for word in clause.words)
        self._pronouncer.learn((word.text for word in every if not word.spelled), unlisted)
        return [
            [self._clause(clause, unlisted, over) for clause, over in zip(of_text, _times(of_text), strict=True)]
            for of_text in cut
        ]

    def close(self) -> None:
        """Nothing to end; here so that it can stand where a process stands."""

    def _clause(self, clause: TokenClause, unlisted: Unlisted, over: bool) -> Clause:
        words = _keys(clause)
        keys = ["", *words, ""]
        say, spell = self._pronouncer.word, self._pronouncer.spelled
        spoken = [
            Spoken("", spell(word.text), word.glued)
            if word.spelled
            else Spoken(key, say(word.text, unlisted, before, after), word.glued)
            for word, before, key, after in zip(clause.words, keys, words, keys[2:], strict=False)
        ]
        for index in _places_of_read(words):
            opens_compound = index + 1 < len(words) and clause.words[index + 1].glued
            past = is_past(words, index, over=over, opens_compound=opens_compound)
            spoken[index] = spoken[index]._replace(ipa=say("read", unlisted, past=past))
        return Clause(connect(spoken), clause.terminator, clause.ends_sentence)


def _keys(clause: TokenClause) -> list[str]:
    return ["" if word.spelled else word.text.lower() for word in clause.words]


def _places_of_read(words: Sequence[str]) -> list[int]:
    return [index for index, word in enumerate(words) if word == "read"] if "read" in words else []


def _times(clauses_: Sequence[TokenClause]) -> list[bool]:
    """For each clause, whether its sentence names a time that is over; looked for where "read" needs it only."""
    if not any(word.text in _READ for clause in clauses_ for word in clause.words):
        return [False] * len(clauses_)
    over: list[bool] = []
    first = 0
    for last, clause in enumerate(clauses_):
        if clause.ends_sentence or last + 1 == len(clauses_):
            told = any(is_over(_keys(clause)) for clause in clauses_[first : last + 1])
            over += [told] * (last + 1 - first)
            first = last + 1
    return over
