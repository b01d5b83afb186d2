"""The front end without Triton: one request in, its segments out. Pure but for the phonemizer it is given."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from text_backend import dropping, workload
from text_backend.g2p import marks
from text_backend.g2p.base import G2P, PROSODY_MARKS, Symbols
from text_backend.inventory import Inventory, UnknownSymbols
from text_backend.languages.base import Language
from text_backend.lexicon import Lexicon, Replacements
from text_backend.mapped import Drop, MappedText, Span, disjoint
from text_backend.normalisation import pipeline
from text_backend.normalisation.scripts import script_name
from text_backend.segmentation import Break, segment
from text_backend.splitting import cut_points
from text_backend.substitutes import Substitutes
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.stage import TextFrontendOptions
from voxrepo_contract.tensors import SPEED_MAX, SPEED_MIN

_LISTED_MAX = 20
_EXCERPT_CHARS = 60
_PAUSE_SIGNS = frozenset("|~`\u00b4")
_SIGNS = frozenset("#%&*/@\\_")
_BLANK = re.compile(r"\s")
_LINE_ENDS = str.maketrans(dict.fromkeys("\n\r\v\f\x85\u2028\u2029", " "))

Observe = Callable[[str, str], None]
"""Told of each step: its name and the text, phonemes or ids after it."""


@dataclass(frozen=True)
class Utterance:
    """A request as the acoustic stage takes it; ``S`` segments, ``T`` ids in all.

    Attributes:
        phoneme_ids: INT64 [T].
        segment_lengths: INT32 [S], ids of each segment; their sum is T.
        pause_ms: INT32 [S], silence after each segment; 0 after the last and inside a sentence.
        speaker_id: index of the speaker.
        drops: source characters that are not spoken, in source order.
        segment_spans: characters of the request that each segment speaks.
        mark_spans: marks that are heard as a pause or are part of a word.
        symbol_spans: characters that each symbol speaks, in order; empty where the phonemizer does not tell.
        substituted: phonemes that the voice lacks, and what is said instead.
    """

    phoneme_ids: npt.NDArray[np.int64]
    segment_lengths: npt.NDArray[np.int32]
    pause_ms: npt.NDArray[np.int32]
    speaker_id: int
    drops: tuple[Drop, ...] = ()
    segment_spans: tuple[Span, ...] = ()
    mark_spans: tuple[Span, ...] = ()
    symbol_spans: tuple[Span, ...] = ()
    substituted: dict[str, str] = field(default_factory=dict)

    @property
    def dropped(self) -> dict[str, int]:
        """Characters that are not spoken, by reason (see :mod:`text_backend.dropping`)."""
        return dropping.count(self.drops)


@dataclass(frozen=True)
class _Sentence:
    """A sentence that has something to say, and what follows it."""

    text: MappedText
    closes: Break


@dataclass
class _Segments:
    """Segments as they are collected."""

    ids: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    symbol_spans: list[Span] = field(default_factory=list)
    substituted: dict[str, str] = field(default_factory=dict)

    def add(self, ids: list[int], span: Span) -> None:
        self.ids += ids
        self.lengths.append(len(ids))
        self.breaks.append(Break.NONE)
        self.spans.append(span)

    def close(self, closes: Break) -> None:
        """A sentence without sound lends its break to the one before."""
        if self.breaks:
            self.breaks[-1] = max(self.breaks[-1], closes)


class FrontEnd:
    """Turns text into segments of phoneme ids for one voice.

    Args:
        options: of the stage.
        inventory: phoneme table of the voice.
        language: rules of ``options.language``.
        g2p: reads normalised sentences.
        lexicon: how the voice says some words; the ``g2p`` must have the same.
        replacements: what the voice says instead of what is written.
        substitutes: for phonemes that the inventory lacks; the standard table if not given.
    """

    def __init__(
        self,
        options: TextFrontendOptions,
        inventory: Inventory,
        language: Language,
        g2p: G2P,
        *,
        lexicon: Lexicon | None = None,
        replacements: Replacements | None = None,
        substitutes: Substitutes | None = None,
    ) -> None:
        self._options = options
        self._inventory = inventory
        self._language = language
        self._g2p = g2p
        self._lexicon = lexicon or Lexicon()
        self._replacements = replacements or Replacements()
        self._substitutes = substitutes or Substitutes(inventory)

    def run(
        self, text: str, speed: float, speaker: str, *, normalise: bool = True, observe: Observe | None = None
    ) -> Utterance:
        """Process one request.

        Args:
            text: what to say.
            speed: 0.25 to 4; pauses are divided by it (speech itself is scaled by the acoustic stage).
            speaker: a name from the voice's list, empty for the first.
            normalise: off, the text is taken as written: no rules, no replacements; the lexicon still holds.
            observe: told of each step.

        Raises:
            InvalidArgument: naming the input and the limit.
            Unavailable: the phonemizer could not read the text.
        """
        speaker_id = self._speaker_id(speaker)
        check_speed(speed)
        check_text(text)
        drops: list[Drop] = []
        mark_spans: list[Span] = []
        sentences = self._sentences(text, normalise, drops, mark_spans, observe)
        spoken = self._g2p.convert([sentence.text for sentence in sentences], observe) if sentences else []
        for sentence, symbols in zip(sentences, spoken, strict=True):
            drops += symbols.drops
            mark_spans += symbols.marks
            drops += _blanked(text, sentence.text, symbols.marks)
        drops = list(disjoint(drops))
        if self._options.on_dropped == "reject":
            self._check_losses(text, drops)
        segments = _Segments()
        for sentence, symbols in zip(sentences, spoken, strict=True):
            self._add(sentence, symbols, segments)
        if not segments.lengths:
            raise InvalidArgument(self._nothing_speakable(text, drops))
        if observe is not None:
            observe("ids", " ".join(map(str, segments.ids)))
        pauses_ms = [self._pause_ms(closes, speed) for closes in segments.breaks[:-1]] + [0]
        return Utterance(
            phoneme_ids=np.asarray(segments.ids, np.int64),
            segment_lengths=np.asarray(segments.lengths, np.int32),
            pause_ms=np.asarray(pauses_ms, np.int32),
            speaker_id=speaker_id,
            drops=tuple(drops),
            segment_spans=tuple(segments.spans),
            mark_spans=tuple(sorted(mark_spans)),
            symbol_spans=tuple(segments.symbol_spans),
            substituted=segments.substituted,
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

    def _sentences(
        self, text: str, normalise: bool, drops: list[Drop], mark_spans: list[Span], observe: Observe | None
    ) -> list[_Sentence]:
        step = None if observe is None else lambda name, after: observe(name, after.text)
        code = self._language.code
        mapped = pipeline.prepare(MappedText.of(text), code, self._options.emoji, fractions=normalise)
        workload.check_spoken_chars(len(text), len(mapped), code)
        if step is not None:
            step("unicode", mapped)
        if normalise:
            mapped = self._replacements.apply(mapped)
        mapped = self._lexicon.mark(mapped)
        if normalise:
            mapped = pipeline.normalise_text(mapped, code, step)
            workload.check_spoken_chars(len(text), len(mapped), code)
        drops += mapped.drops
        sentences: list[_Sentence] = []
        spoken_chars = 0
        found = segment(mapped.text, code)
        workload.check_sentences(len(text), len(found))
        for span in found:
            piece = mapped.slice(span.start, span.end)
            piece = MappedText(piece.text.translate(_LINE_ENDS), piece.starts, piece.ends)
            if normalise:
                piece = pipeline.normalise_sentence(piece, code, step)
            spoken_chars += len(piece)
            workload.check_spoken_chars(len(text), spoken_chars, code)
            piece = self._language.without_unreadable(piece)
            drops += piece.drops
            if self._language.is_speakable(piece.text):
                sentences.append(_Sentence(piece, span.closes))
                if step is not None:
                    step("sentence", piece)
                continue
            drops += _unnamed(piece)
            if sentences:
                last = sentences[-1]
                sentences[-1] = _Sentence(last.text, max(last.closes, span.closes))
                mark_spans.append(piece.span(0, len(piece)))
            else:
                drops += marks.outcome(piece, 0, len(piece), pauses=True, said_before=False, follows=False)[1]
                drops += _blanked(text, piece, ())
        return sentences

    def _add(self, sentence: _Sentence, symbols: Symbols, segments: _Segments) -> None:
        if not symbols.has_sound:
            segments.close(sentence.closes)
            return
        try:
            said, replaced = self._substitutes.apply(symbols)
        except UnknownSymbols as unknown:
            raise InvalidArgument(
                f"text: the voice was not trained on the phoneme {unknown}, which "
                f"{_excerpt(sentence.text.text)} needs; "
                "spell the word differently or leave it out"
            ) from unknown
        segments.substituted.update(replaced)
        whole = sentence.text.span(0, len(sentence.text))
        added = False
        segments.symbol_spans += said.spans
        parts = self._parts(said)
        for start, end in parts:
            part = said.symbols[start:end]
            spans = said.spans[start:end] if len(parts) > 1 else []
            segments.add(self._inventory.encode(part), (spans[0][0], spans[-1][1]) if spans else whole)
            added = True
        if added:
            segments.breaks[-1] = sentence.closes
        else:
            segments.close(sentence.closes)

    def _parts(self, symbols: Symbols) -> list[tuple[int, int]]:
        """Cut a sentence into parts of at most ``max_segment_ids`` ids each."""
        known = self._inventory.costs_ids
        costs = list(map(known.__getitem__, symbols.symbols))
        limit = self._options.max_segment_ids - self._inventory.frame_ids
        if sum(costs) <= limit:
            return [(0, len(symbols.symbols))]
        points = cut_points(costs, symbols.cuts, limit)
        bounds = [0, *points, len(symbols.symbols)]
        parts = [_without_blank_ends(symbols.symbols, start, end) for start, end in pairwise(bounds)]
        return [(start, end) for start, end in parts if Symbols(symbols.symbols[start:end], []).has_sound]

    def _check_losses(self, text: str, drops: list[Drop]) -> None:
        lost = [drop for drop in drops if drop.reason in dropping.LOSSES]
        if lost:
            raise InvalidArgument(f"text: {self._cannot_read(text, lost)}")

    def _nothing_speakable(self, text: str, drops: list[Drop]) -> str:
        message = f"text: nothing speakable in {_excerpt(text)}; it needs at least one letter or digit"
        lost = [drop for drop in drops if drop.reason in dropping.LOSSES]
        if lost:
            return f"text: nothing speakable in {_excerpt(text)}: {self._cannot_read(text, lost)}"
        return message + (f" (dropped: {dropping.describe(dropping.count(drops))})" if drops else "")

    def _cannot_read(self, text: str, lost: list[Drop]) -> str:
        """A sentence that names the characters without a reading."""
        characters = dict.fromkeys(character for drop in lost for character in text[drop.start : drop.end])
        shown = "".join(list(characters)[:_LISTED_MAX]) + ("..." if len(characters) > _LISTED_MAX else "")
        letters = [character for character in characters if character.isalpha()]
        if letters:
            scripts = ", ".join(dict.fromkeys(script_name(letter) for letter in letters))
            return (
                f"this {self._language.name} voice has no reading for the letters {shown!r} ({scripts}); "
                "leave them out, write them in letters that it reads, or use a voice of that language"
            )
        names = ", ".join(unicodedata.name(character, "?") for character in list(characters)[:3])
        return (
            f"this {self._language.name} voice has no reading for {shown!r} ({names}); "
            "leave it out or write it as words"
        )

    def _pause_ms(self, closes: Break, speed: float) -> int:
        if closes is Break.NONE:
            return 0
        pause_ms = self._options.paragraph_pause_ms if closes is Break.PARAGRAPH else self._options.sentence_pause_ms
        return round(pause_ms / speed)


def _unnamed(piece: MappedText) -> list[Drop]:
    """Signs of a sentence that says nothing."""
    return [
        Drop(*piece.span(at, at + 1), dropping.SYMBOL)
        for at, character in enumerate(piece.text)
        if character in _SIGNS or (unicodedata.category(character)[0] in "SM" and character not in _PAUSE_SIGNS)
    ]


def _blanked(text: str, sentence: MappedText, marked: Sequence[Span]) -> list[Drop]:
    """Characters of ``text`` of which a blank without a pause is left: a tilde, an escaped line end at the start."""
    drops: list[Drop] = []
    spoken: set[Span] | None = None
    starts, ends = sentence.starts, sentence.ends
    for match in _BLANK.finditer(sentence.text):
        at = match.start()
        start = starts[at]
        end = max(start, ends[at])
        if start == end or text[start:end].isspace():
            continue
        if spoken is None:
            spoken = {
                (first, last) for first, last, c in zip(starts, ends, sentence.text, strict=True) if not c.isspace()
            }
        if (start, end) not in spoken and not any(first <= start and end <= last for first, last in marked):
            drops.append(Drop(start, end, dropping.PUNCTUATION if end - start == 1 else dropping.MARKUP))
    return drops


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


def _without_blank_ends(symbols: list[str], start: int, end: int) -> tuple[int, int]:
    while start < end and symbols[start] in PROSODY_MARKS:
        start += 1
    while end > start and symbols[end - 1] in PROSODY_MARKS:
        end -= 1
    return start, end


def _excerpt(text: str) -> str:
    shown = text.strip()
    return repr(shown if len(shown) <= _EXCERPT_CHARS else shown[: _EXCERPT_CHARS - 3] + "...")
