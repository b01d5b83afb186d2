"""Mandarin sentences as symbols of a voice trained on the Baker corpus.

Characters by pinyin with tone sandhi, Latin words and letters by Mandarin syllables, digits that nobody has turned
into words one by one, marks as prosody. Between syllables stands ``#0``, between words written apart ``#1``, at
``、`` ``#2``, at other marks ``#3``, as in the corpus; its ``#4``, the end of a sentence, is the inventory's end.
What cannot be read is counted, never passed over.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from text_backend import dropping
from text_backend.data import table
from text_backend.g2p import pinyin, sandhi, syllables
from text_backend.g2p.base import ObserveText, Symbols
from text_backend.g2p.english_sounds import phones_of
from text_backend.g2p.latin import Pronounce, read_latin
from text_backend.g2p.syllables import Syllable
from text_backend.lexicon import Lexicon
from text_backend.mapped import Drop, MappedText, Span
from text_backend.normalisation.numbers_zh import digits
from text_backend.normalisation.scripts import Run, Script, runs
from text_backend.splitting import Cut

_CONTEXT = 8
_STRONG = frozenset(
    ",\uff0c;:\u3002.!?\uff1b\uff1a\uff01\uff1f\u2026\u22ef\u2014\u2015\u2500\n()\uff08\uff09[]\u3010\u3011{}|"
)
_SILENT_MARKS = frozenset("`\u00b4~")
_NAMED_SIGNS = frozenset(row[0] for row in table("signs"))
_WEAK = frozenset("\u3001/\\")
_BREAKS = {0: "#0", 1: "#1", 2: "#2", 3: "#3"}
_INSIDE = [[Cut.NEVER] * length for length in range(4)]
# a syllable has at most three symbols, the third is the er5 of a coloured final
_CUTS = {0: Cut.HARD, 1: Cut.WORD, 2: Cut.WORD, 3: Cut.CLAUSE}


@dataclass
class _Spoken:
    """What has been said of a sentence: syllables, the break after each, and the span of each."""

    syllables: list[Sequence[str]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    pinyin: list[str] = field(default_factory=list)

    def say(self, symbols: Sequence[str], span: Span, shown: str) -> None:
        self.syllables.append(symbols)
        self.spans.append(span)
        self.breaks.append(0)
        self.pinyin.append(shown)

    def pause(self, strength: int) -> None:
        if self.breaks:
            self.breaks[-1] = max(self.breaks[-1], strength)


class MandarinG2P:
    """See the module's text.

    Args:
        lexicon: the voice's own words.
        pronounce: ARPAbet phones of an English word; by spelling if not given.
    """

    def __init__(self, lexicon: Lexicon | None = None, pronounce: Pronounce = phones_of) -> None:
        self._lexicon = lexicon or Lexicon()
        self._read_word = lru_cache(maxsize=8192)(
            lambda word: [(tuple(s.symbols), _shown(s)) for s in read_latin(word, pronounce)]
        )
        self._greek = {row[0]: row[1] for row in table("greek")}

    def convert(self, sentences: Sequence[MappedText], observe: ObserveText | None = None) -> list[Symbols]:
        """Symbols of each sentence; see :class:`text_backend.g2p.base.G2P`."""
        found: list[Symbols] = []
        for sentence in sentences:
            spoken = self._read(sentence)
            if observe is not None:
                observe("pinyin", " ".join(spoken.pinyin))
            found.append(_assembled(spoken))
        return found

    def parse_pronunciation(self, written: str) -> list[str]:
        """``chong2 qing4`` as symbols, ``#0`` between syllables.

        Raises:
            ValueError: naming the syllable that Mandarin does not have.
        """
        symbols: list[str] = []
        for spelled in written.lower().split():
            syllable = syllables.parse(spelled)
            if syllable is None:
                raise ValueError(
                    f"{spelled!r} is no pinyin syllable with a tone digit from 1 to 5, as in 'chong2 qing4'"
                )
            symbols += [*(["#0"] if symbols else []), *syllable.symbols]
        if not symbols:
            raise ValueError("the pronunciation is empty")
        return symbols

    def _read(self, sentence: MappedText) -> _Spoken:
        spoken = _Spoken()
        for run in runs(sentence.text):
            if run.script is Script.HAN:
                self._han(sentence, run, spoken)
            elif run.script is Script.DIGITS:
                self._digits(sentence, run, spoken)
            elif run.script is Script.LATIN:
                self._latin(sentence, run, spoken)
            elif run.script is Script.OTHER:
                self._other(sentence, run, spoken)
            else:
                self._marks(sentence, run, spoken)
        return spoken

    def _han(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        text = sentence.text
        before = text[max(0, run.start - _CONTEXT) : run.start]
        after = text[run.end : run.end + _CONTEXT]
        if run.end - run.start == 1:
            # between marks and digits; remembered, as such texts are long and hostile
            alone = _said_alone(text[run.start], before, after)
            if alone is not None:
                spoken.say(alone[0], (sentence.starts[run.start], sentence.ends[run.start]), alone[1])
                return
        self._say_readings(
            pinyin.read_han(text[run.start : run.end], before, after),
            list(zip(sentence.starts[run.start : run.end], sentence.ends[run.start : run.end], strict=True)),
            spoken,
        )

    def _say_readings(self, readings: Sequence[pinyin.Reading], spans: Sequence[Span], spoken: _Spoken) -> None:
        parsed = [syllables.parse(reading.pinyin) if reading.pinyin != "r" else None for reading in readings]
        known = [at for at, syllable in enumerate(parsed) if syllable is not None]
        tones = sandhi.apply(
            "".join(readings[at].character for at in known),
            [syllable.tone for syllable in parsed if syllable is not None],
            [readings[at].word for at in known],
        )
        toned = dict(zip(known, tones, strict=True))
        for at, reading in enumerate(readings):
            syllable = parsed[at]
            if reading.pinyin == "r" and at and parsed[at - 1] is not None:
                spoken.syllables[-1] = [*spoken.syllables[-1], "er5"]
                spoken.spans[-1] = (spoken.spans[-1][0], max(spoken.spans[-1][1], spans[at][1]))
                spoken.pinyin[-1] = spoken.pinyin[-1][:-1] + "r" + spoken.pinyin[-1][-1]
            elif syllable is None:
                spoken.drops.append(Drop(*spans[at], dropping.UNREADABLE))
            else:
                symbols, shown = _said(syllable, reading.pinyin, toned[at])
                spoken.say(symbols, spans[at], shown)

    def _digits(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        # nobody has said what the number is: normalisation is off, or no rule knew it
        characters = digits(sentence.text[run.start : run.end])
        readings = pinyin.read_han(characters)
        self._say_readings(
            [pinyin.Reading(r.character, r.pinyin, at) for at, r in enumerate(readings)],
            [sentence.span(at, at + 1) for at in range(run.start, run.end)],
            spoken,
        )

    def _latin(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        span = sentence.span(run.start, run.end)
        said = self._read_word(sentence.text[run.start : run.end])
        if not said:
            spoken.drops.append(Drop(*span, dropping.UNREADABLE))
        for symbols, shown in said:
            spoken.say(symbols, span, shown)

    def _other(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        for at in range(run.start, run.end):
            character = sentence.text[at]
            name = self._greek.get(character.lower())
            span = sentence.span(at, at + 1)
            if name is None:
                spoken.drops.append(Drop(*span, dropping.UNREADABLE))
                continue
            self._say_readings(pinyin.read_han(name), [span] * len(name), spoken)

    def _marks(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        for at in range(run.start, run.end):
            character = sentence.text[at]
            entry = self._lexicon.pronunciation_at(character)
            if entry is not None:
                span = sentence.span(at, at + 1)
                for syllable in _split_syllables(entry):
                    spoken.say(syllable, span, "".join(syllable))
            elif character in _STRONG:
                spoken.pause(3)
            elif character in _WEAK:
                spoken.pause(2)
            elif character.isspace():
                spoken.pause(1)
            elif character not in _SILENT_MARKS:
                self._unread(sentence, at, spoken)

    def _unread(self, sentence: MappedText, at: int, spoken: _Spoken) -> None:
        """Punctuation shapes nothing here; a sign that nobody named or a mark on a letter is counted."""
        character = sentence.text[at]
        kind = unicodedata.category(character)[0]
        if kind in "LMNC":
            spoken.drops.append(Drop(*sentence.span(at, at + 1), dropping.UNREADABLE))
        elif kind == "S" or character in _NAMED_SIGNS:
            spoken.drops.append(Drop(*sentence.span(at, at + 1), dropping.SYMBOL))


@lru_cache(maxsize=8192)
def _said_alone(character: str, before: str, after: str) -> tuple[tuple[str, ...], str] | None:
    """Symbols and pinyin of a character without another beside it; ``None`` if it has no reading of its own."""
    (reading,) = pinyin.read_han(character, before, after)
    syllable = syllables.parse(reading.pinyin) if reading.pinyin != "r" else None
    if syllable is None:
        return None
    (tone,) = sandhi.apply(character, [syllable.tone], [reading.word])
    return _said(syllable, reading.pinyin, tone)


@lru_cache(maxsize=8192)
def _said(syllable: Syllable, spelled: str, tone: int) -> tuple[tuple[str, ...], str]:
    """Symbols of a syllable in another tone, and its pinyin."""
    return tuple(syllable._replace(tone=tone).symbols), f"{spelled[:-1]}{tone}"


def _split_syllables(symbols: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for symbol in symbols:
        if symbol == "#0":
            parts.append([])
        else:
            parts[-1].append(symbol)
    return parts


def _shown(syllable: Syllable) -> str:
    return f"{'' if syllable.initial == '^' else syllable.initial}{syllable.final}{syllable.tone}"


def _assembled(spoken: _Spoken) -> Symbols:
    symbols: list[str] = []
    cuts: list[Cut] = []
    spans: list[Span] = []
    for syllable, strength, span in zip(spoken.syllables, spoken.breaks, spoken.spans, strict=True):
        symbols += syllable
        symbols.append(_BREAKS[strength])
        cuts += _INSIDE[len(syllable)]
        cuts.append(_CUTS[strength])
        spans += [span] * (len(syllable) + 1)
    # no break after the last syllable: the end of the segment follows
    return Symbols(symbols[:-1], cuts[:-1], spans[:-1], tuple(spoken.drops))
