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
from typing import NamedTuple

from text_backend import dropping
from text_backend.data import table
from text_backend.g2p import marks, pinyin, sandhi, syllables
from text_backend.g2p.base import ObserveText, Symbols
from text_backend.g2p.english_sounds import phones_of
from text_backend.g2p.latin import Pronounce, read_latin
from text_backend.g2p.syllables import Syllable
from text_backend.lexicon import Lexicon
from text_backend.mapped import Drop, MappedText, Span
from text_backend.normalisation.numbers_zh import cardinal, digits
from text_backend.normalisation.scripts import Run, Script, runs
from text_backend.splitting import Cut

_CONTEXT = 8
_REMEMBERED_CHARS = 8
_STRONG = frozenset(
    ",\uff0c;:\u3002.!?\uff1b\uff1a\uff01\uff1f\u2026\u22ef\u2014\u2015\u2500\n()\uff08\uff09[]\u3010\u3011{}|"
)
_SILENT_MARKS = frozenset("`\u00b4~")
_NAMED_SIGNS = frozenset(row[0] for row in table("signs"))
_WEAK = frozenset("\u3001/\\")
_BREAKS = {0: "#0", 1: "#1", 2: "#2", 3: "#3"}
_CUTS = {0: Cut.HARD, 1: Cut.WORD, 2: Cut.WORD, 3: Cut.CLAUSE}


class _Run(NamedTuple):
    """What is said of a run of Chinese characters.

    Attributes:
        syllables: symbols of each.
        pinyin: of each syllable.
        covers: first and last character that each syllable says; ``None`` if each says one.
        unread: characters without a reading.
    """

    syllables: tuple[tuple[str, ...], ...]
    pinyin: tuple[str, ...]
    covers: tuple[tuple[int, int], ...] | None
    unread: tuple[int, ...]


@dataclass
class _Spoken:
    """What has been said of a sentence: syllables, the break after each, and the span of each."""

    syllables: list[tuple[str, ...]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    pinyin: list[str] = field(default_factory=list)
    marks: list[Span] = field(default_factory=list)
    follows: bool = False
    """Whether a sentence was said before this one."""

    def say(self, symbols: tuple[str, ...], span: Span, shown: str) -> None:
        self.syllables.append(symbols)
        self.spans.append(span)
        self.breaks.append(0)
        self.pinyin.append(shown)

    def say_run(self, run: _Run, spans: Sequence[Span]) -> None:
        """Say a run of characters that have these spans."""
        self.syllables += run.syllables
        self.breaks += [0] * len(run.syllables)
        self.pinyin += run.pinyin
        if run.covers is None:
            self.spans += spans
        else:
            self.spans += [(spans[first][0], max(spans[first][1], spans[last][1])) for first, last in run.covers]
            self.drops += [Drop(*spans[at], dropping.UNREADABLE) for at in run.unread]

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
        self._read_word = lru_cache(maxsize=2048)(lambda word: _run_of(read_latin(word, pronounce)))
        self._greek = {row[0]: row[1] for row in table("greek")}

    def convert(self, sentences: Sequence[MappedText], observe: ObserveText | None = None) -> list[Symbols]:
        """Symbols of each sentence; see :class:`text_backend.g2p.base.G2P`."""
        found: list[Symbols] = []
        follows = False
        for sentence in sentences:
            spoken = self._read(sentence, follows)
            follows = follows or bool(spoken.syllables)
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

    def _read(self, sentence: MappedText, follows: bool) -> _Spoken:
        spoken = _Spoken(follows=follows)
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
        characters = sentence.text[run.start : run.end]
        before = after = ""
        if pinyin.needs_context(characters):
            before = sentence.text[max(0, run.start - _CONTEXT) : run.start]
            after = sentence.text[run.end : run.end + _CONTEXT]
        # short runs, mostly between numbers and marks, come again
        read = _remembered if len(characters) <= _REMEMBERED_CHARS else _read_run
        spans = list(zip(sentence.starts[run.start : run.end], sentence.ends[run.start : run.end], strict=True))
        spoken.say_run(read(characters, before, after), spans)

    def _digits(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        # nobody has said what the number is: normalisation is off, or no rule knew it
        for at in range(run.start, run.end):
            spoken.say_run(_remembered(digits(sentence.text[at]), "", ""), [sentence.span(at, at + 1)])

    def _latin(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        span = sentence.span(run.start, run.end)
        said = self._read_word(sentence.text[run.start : run.end])
        if not said.syllables:
            spoken.drops.append(Drop(*span, dropping.UNREADABLE))
        spoken.say_run(said, [span] * len(said.syllables))

    def _other(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        for at in range(run.start, run.end):
            character = sentence.text[at]
            name = self._greek.get(character.lower()) or _fraction(character)
            span = sentence.span(at, at + 1)
            if name is None:
                spoken.drops.append(Drop(*span, dropping.UNREADABLE))
                continue
            spoken.say_run(_read_run(name, "", ""), [span] * len(name))

    def _marks(self, sentence: MappedText, run: Run, spoken: _Spoken) -> None:
        start, strength = run.start, 0
        for at in range(run.start, run.end):
            character = sentence.text[at]
            entry = self._lexicon.pronunciation_at(character)
            if entry is not None:
                _close_group(sentence, start, at, strength, spoken)
                start, strength = at + 1, 0
                span = sentence.span(at, at + 1)
                for syllable in _split_syllables(entry):
                    spoken.say(syllable, span, "".join(syllable))
            elif character in _STRONG:
                strength = 3
            elif character in _WEAK:
                strength = max(strength, 2)
            elif character.isspace():
                strength = max(strength, 1)
            elif character not in _SILENT_MARKS:
                reason = _reason_unread(character)
                if reason is not None:
                    _close_group(sentence, start, at, strength, spoken)
                    start, strength = at + 1, 0
                    spoken.drops.append(Drop(*sentence.span(at, at + 1), reason))
        _close_group(sentence, start, run.end, strength, spoken)


def _close_group(sentence: MappedText, start: int, end: int, strength: int, spoken: _Spoken) -> None:
    """A group of marks is a pause, or counted; see :mod:`text_backend.g2p.marks`."""
    if start == end:
        return
    if strength:
        spoken.pause(strength)
    span, drops = marks.outcome(
        sentence, start, end, pauses=strength > 0, said_before=bool(spoken.syllables), follows=spoken.follows
    )
    if span is not None:
        spoken.marks.append(span)
    spoken.drops += drops


def _reason_unread(character: str) -> str | None:
    """Why a character among the marks is lost: nobody named the sign, or it is a mark on a letter; ``None`` if it is
    punctuation.
    """
    kind = unicodedata.category(character)[0]
    if kind in "LMNC":
        return dropping.UNREADABLE
    return dropping.SYMBOL if kind == "S" or character in _NAMED_SIGNS else None


def _read_run(characters: str, before: str, after: str) -> _Run:
    """Symbols of a run of characters, the tones as they are spoken in it."""
    readings = pinyin.read_han(characters, before, after)
    parsed = [syllables.parse(reading.pinyin) if reading.pinyin != "r" else None for reading in readings]
    if None not in parsed:
        tones = sandhi.apply(characters, [s.tone for s in parsed if s], [reading.word for reading in readings])
        said = [_said(s, r.pinyin, tone) for s, r, tone in zip(parsed, readings, tones, strict=True) if s]
        return _Run(tuple(symbols for symbols, _ in said), tuple(shown for _, shown in said), None, ())
    known = [at for at, syllable in enumerate(parsed) if syllable is not None]
    tones = sandhi.apply(
        "".join(readings[at].character for at in known),
        [syllable.tone for syllable in parsed if syllable is not None],
        [readings[at].word for at in known],
    )
    toned = dict(zip(known, tones, strict=True))
    spoken: list[tuple[tuple[str, ...], str, tuple[int, int]]] = []
    unread: list[int] = []
    for at, reading in enumerate(readings):
        syllable = parsed[at]
        if reading.pinyin == "r" and at and parsed[at - 1] is not None:
            symbols, shown, (first, _) = spoken[-1]
            spoken[-1] = ((*symbols, "er5"), shown[:-1] + "r" + shown[-1], (first, at))
        elif syllable is None:
            unread.append(at)
        else:
            spoken.append((*_said(syllable, reading.pinyin, toned[at]), (at, at)))
    return _Run(
        tuple(symbols for symbols, _, _ in spoken),
        tuple(shown for _, shown, _ in spoken),
        tuple(cover for _, _, cover in spoken),
        tuple(unread),
    )


_remembered = lru_cache(maxsize=2048)(_read_run)


@lru_cache(maxsize=8192)
def _said(syllable: Syllable, spelled: str, tone: int) -> tuple[tuple[str, ...], str]:
    """Symbols of a syllable in another tone, and its pinyin."""
    return tuple(syllable._replace(tone=tone).symbols), f"{spelled[:-1]}{tone}"


def _run_of(said: Sequence[Syllable]) -> _Run:
    return _Run(tuple(tuple(s.symbols) for s in said), tuple(_shown(s) for s in said), None, ())


def _fraction(character: str) -> str | None:
    """``½`` where normalisation has left it as it is."""
    top, _, bottom = unicodedata.normalize("NFKC", character).partition("\u2044")
    return f"{cardinal(bottom)}分之{cardinal(top)}" if top.isdigit() and bottom.isdigit() else None


def _split_syllables(symbols: Sequence[str]) -> list[tuple[str, ...]]:
    parts: list[tuple[str, ...]] = [()]
    for symbol in symbols:
        if symbol == "#0":
            parts.append(())
        else:
            parts[-1] = (*parts[-1], symbol)
    return parts


def _shown(syllable: Syllable) -> str:
    return f"{'' if syllable.initial == '^' else syllable.initial}{syllable.final}{syllable.tone}"


def _assembled(spoken: _Spoken) -> Symbols:
    symbols: list[str] = []
    cuts: list[Cut] = []
    spans: list[Span] = []
    for syllable, strength, span in zip(spoken.syllables, spoken.breaks, spoken.spans, strict=True):
        its_symbols, its_cuts = _with_break(syllable, strength)
        symbols += its_symbols
        cuts += its_cuts
        spans += [span] * len(its_symbols)
    # no break after the last syllable: the end of the segment follows
    return Symbols(symbols[:-1], cuts[:-1], spans[:-1], tuple(spoken.drops), tuple(spoken.marks))


@lru_cache(maxsize=8192)
def _with_break(syllable: tuple[str, ...], strength: int) -> tuple[tuple[str, ...], tuple[Cut, ...]]:
    """A syllable's symbols and the mark of the break behind it, with the cuts after them."""
    return (*syllable, _BREAKS[strength]), (*([Cut.NEVER] * len(syllable)), _CUTS[strength])
