"""The front end without Triton: one request in, its segments out. Pure but for the phonemizer it is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from text_backend.assembly import Symbols, assemble
from text_backend.espeak import Clause
from text_backend.espeak_limits import pieces
from text_backend.inventory import Inventory, UnknownSymbols
from text_backend.languages.base import Language, script_of
from text_backend.segmentation import Break, segment
from text_backend.splitting import cut_points
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.stage import TextFrontendOptions
from voxrepo_contract.tensors import SPEED_MAX, SPEED_MIN

_LISTED_MAX = 20
_EXCERPT_CHARS = 60


class Phonemizer(Protocol):
    """What the front end needs of :class:`text_backend.espeak.EspeakClient`."""

    def phonemize(self, texts: Sequence[str]) -> list[list[Clause]]:
        """Clauses of each text, in order."""


@dataclass(frozen=True)
class Utterance:
    """A request as the acoustic stage takes it; ``S`` segments, ``T`` ids in all.

    Attributes:
        phoneme_ids: INT64 [T].
        segment_lengths: INT32 [S], ids of each segment; their sum is T.
        pause_ms: INT32 [S], silence after each segment; 0 after the last and inside a sentence.
        speaker_id: index of the speaker.
    """

    phoneme_ids: npt.NDArray[np.int64]
    segment_lengths: npt.NDArray[np.int32]
    pause_ms: npt.NDArray[np.int32]
    speaker_id: int


@dataclass(frozen=True)
class _Spoken:
    """A sentence that has something to say, and what follows it."""

    text: str
    pieces: list[str]
    closes: Break


class FrontEnd:
    """Turns text into segments of phoneme ids for one voice.

    Args:
        options: of the stage.
        inventory: phoneme table of the voice.
        language: rules of ``options.language``.
        phonemizer: reads normalised text.
    """

    def __init__(
        self, options: TextFrontendOptions, inventory: Inventory, language: Language, phonemizer: Phonemizer
    ) -> None:
        self._options = options
        self._inventory = inventory
        self._language = language
        self._phonemizer = phonemizer

    def run(self, text: str, speed: float, speaker: str) -> Utterance:
        """Process one request.

        Args:
            text: what to say.
            speed: 0.25 to 4; pauses are divided by it (speech itself is scaled by the acoustic stage).
            speaker: a name from the voice's list, empty for the first.

        Raises:
            InvalidArgument: naming the input and the limit.
            Unavailable: the phonemizer could not read the text.
        """
        speaker_id = self._speaker_id(speaker)
        check_speed(speed)
        check_text(text)
        sentences = self._sentences(text)
        if not sentences:
            raise InvalidArgument(f"text: nothing speakable in {_excerpt(text)}; it needs at least one letter or digit")
        clauses = self._phonemizer.phonemize([piece for sentence in sentences for piece in sentence.pieces])
        ids: list[int] = []
        lengths: list[int] = []
        breaks: list[Break] = []
        at = 0
        for sentence in sentences:
            symbols = assemble(clauses[at : at + len(sentence.pieces)])
            at += len(sentence.pieces)
            if not symbols.has_sound:
                self._check_silence(sentence)
                _raise_last(breaks, sentence.closes)
                continue
            for part in self._parts(symbols):
                encoded = self._encode(part, sentence)
                ids += encoded
                lengths.append(len(encoded))
                breaks.append(Break.NONE)
            breaks[-1] = sentence.closes
        if not lengths:
            raise InvalidArgument(f"text: nothing speakable in {_excerpt(text)}; it needs at least one letter or digit")
        pauses = [self._pause_ms(closes, speed) for closes in breaks[:-1]] + [0]
        return Utterance(
            phoneme_ids=np.asarray(ids, np.int64),
            segment_lengths=np.asarray(lengths, np.int32),
            pause_ms=np.asarray(pauses, np.int32),
            speaker_id=speaker_id,
        )

    def _speaker_id(self, speaker: str) -> int:
        names = self._options.speakers
        if not speaker:
            return 0
        if speaker in names:
            return names.index(speaker)
        listed = ", ".join(names[:_LISTED_MAX])
        more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
        raise InvalidArgument(f"speaker: {_excerpt(speaker)} is unknown; this voice has: {listed}{more}")

    def _sentences(self, text: str) -> list[_Spoken]:
        spoken_sentences: list[_Spoken] = []
        unreadable: dict[str, None] = {}
        for span in segment(text, self._language.code):
            spoken = self._language.normalise(text[span.start : span.end])
            if self._language.is_speakable(spoken):
                unreadable.update(dict.fromkeys(self._language.unreadable(spoken)))
                spoken_sentences.append(_Spoken(spoken, pieces(spoken), span.closes))
            elif spoken_sentences:
                last = spoken_sentences[-1]
                closes = max(last.closes, span.closes)
                spoken_sentences[-1] = _Spoken(last.text, last.pieces, closes)
        if unreadable:
            letters = list(unreadable)
            scripts = ", ".join(dict.fromkeys(script_of(letter) for letter in letters))
            shown = "".join(letters[:_LISTED_MAX]) + ("..." if len(letters) > _LISTED_MAX else "")
            raise InvalidArgument(
                f"text: this {self._language.name} voice has no reading for the letters {shown!r} ({scripts}); "
                "leave them out, write them in Latin letters, or use a voice of that language"
            )
        return spoken_sentences

    def _check_silence(self, sentence: _Spoken) -> None:
        if any(character.isalnum() for character in sentence.text):
            raise InvalidArgument(f"text: the phonemizer has no pronunciation for {_excerpt(sentence.text)}")

    def _parts(self, symbols: Symbols) -> list[list[str]]:
        """Cut a sentence into parts of at most ``max_segment_ids`` ids each."""
        costs = [self._inventory.cost_ids(symbol) for symbol in symbols.symbols]
        points = cut_points(costs, symbols.cuts, self._options.max_segment_ids - self._inventory.frame_ids)
        if not points:
            return [symbols.symbols]
        bounds = [0, *points, len(symbols.symbols)]
        parts = [symbols.symbols[start:end] for start, end in pairwise(bounds)]
        parts = [_without_blank_ends(part) for part in parts]
        return [part for part in parts if any(symbol.isalpha() for symbol in part)]

    def _encode(self, part: list[str], sentence: _Spoken) -> list[int]:
        try:
            return self._inventory.encode(part)
        except UnknownSymbols as unknown:
            raise InvalidArgument(
                f"text: the voice was not trained on the phoneme {unknown}, which {_excerpt(sentence.text)} needs; "
                "spell the word differently or leave it out"
            ) from unknown

    def _pause_ms(self, closes: Break, speed: float) -> int:
        if closes is Break.NONE:
            return 0
        pause_ms = self._options.paragraph_pause_ms if closes is Break.PARAGRAPH else self._options.sentence_pause_ms
        return round(pause_ms / speed)


def check_speed(speed: float) -> None:
    """Refuse a speed that is not a number from 0.25 to 4.

    Raises:
        InvalidArgument: with the value and the limits.
    """
    if not math.isfinite(speed) or not SPEED_MIN <= speed <= SPEED_MAX:
        raise InvalidArgument(f"speed: {speed:g} is out of range; it must be from {SPEED_MIN:g} to {SPEED_MAX:g}")


def check_text(text: str) -> None:
    """Refuse a text that is blank or holds a NUL character.

    Raises:
        InvalidArgument: saying which.
    """
    if not text.strip():
        raise InvalidArgument("text: is empty or blank; it needs at least one letter or digit")
    if "\0" in text:
        raise InvalidArgument(f"text: holds a NUL character at position {text.index(chr(0))}; remove it")


def _raise_last(breaks: list[Break], closes: Break) -> None:
    """A sentence without sound lends its break to the one before."""
    if breaks:
        breaks[-1] = max(breaks[-1], closes)


def _without_blank_ends(part: list[str]) -> list[str]:
    start, end = 0, len(part)
    while start < end and part[start] == " ":
        start += 1
    while end > start and part[end - 1] == " ":
        end -= 1
    return part[start:end]


def _excerpt(text: str) -> str:
    shown = text.strip()
    return repr(shown if len(shown) <= _EXCERPT_CHARS else shown[: _EXCERPT_CHARS - 3] + "...")
