"""Text that remembers where each of its characters came from.

Normalisation changes what a request said; captions, messages and the count of what was dropped need the way back.
Every step of the pipeline takes a :class:`MappedText` and returns another one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Span = tuple[int, int]


class Drop(NamedTuple):
    """Source characters ``start`` to ``end`` that are not spoken, and why (see :mod:`text_backend.dropping`)."""

    start: int
    end: int
    reason: str


class Edit(NamedTuple):
    """Replace characters ``start`` to ``end`` of a text by ``text``.

    An empty ``text`` takes the characters away and needs a ``reason``, under which they are counted.
    """

    start: int
    end: int
    text: str
    reason: str = ""


@dataclass(frozen=True)
class MappedText:
    """Characters, the source span of each, and what was dropped on the way.

    Invariant: spans ascend; two spans are equal (both came from the same source characters), or disjoint, or one is
    empty (an inserted character). Each source character is either in one drop or in one span, where a drop inside a
    span (an emoji in the middle of a number) counts as dropped.

    Attributes:
        text: the characters.
        starts: per character, where its source begins.
        ends: per character, where its source ends.
        drops: what was taken away from this text, in source order per step.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    drops: tuple[Drop, ...] = field(default=())

    @staticmethod
    def of(source: str, at: int = 0) -> MappedText:
        """``source`` unchanged; its first character is number ``at``."""
        return MappedText(source, range(at, at + len(source)), range(at + 1, at + len(source) + 1))

    def __len__(self) -> int:
        return len(self.text)

    def span(self, start: int, end: int) -> Span:
        """Source span of characters ``start`` to ``end``; empty for none."""
        if start >= end:
            at = self._source_position(start)
            return at, at
        return self.starts[start], max(self.starts[start], self.ends[end - 1])

    def slice(self, start: int, end: int) -> MappedText:
        """Characters ``start`` to ``end`` with their spans, without the drops made so far."""
        return MappedText(self.text[start:end], self.starts[start:end], self.ends[start:end])

    def dropping(self, drops: Iterable[Drop]) -> MappedText:
        """The same text with further drops recorded."""
        return MappedText(self.text, self.starts, self.ends, (*self.drops, *drops))

    def edit(self, edits: Sequence[Edit]) -> MappedText:
        """Apply edits that ascend and do not overlap. Time is linear in the text.

        All characters of a replacement get the span of everything it replaces.

        Raises:
            ValueError: edits overlap, lie outside the text, or take characters away without a reason.
        """
        if not edits:
            return self
        texts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        drops: list[Drop] = []
        dropped = sorted(drop[:2] for drop in self.drops)
        survivors = _Survivors(self, edits)
        overlapping = False
        text, old_starts, old_ends = self.text, self.starts, self.ends
        at = 0
        for edit in edits:
            first, after, new, reason = edit
            if not at <= first <= after <= len(text):
                raise ValueError(f"edit {edit!r} overlaps the one before it or lies outside the text")
            if at < first:
                overlapping = overlapping or _overlaps(starts, ends, old_starts[at], old_ends[at])
                texts.append(text[at:first])
                starts += old_starts[at:first]
                ends += old_ends[at:first]
            at = after
            if new:
                start, end = self.span(first, after)
                overlapping = overlapping or _overlaps(starts, ends, start, end)
                texts.append(new)
                starts += [start] * len(new)
                ends += [end] * len(new)
            elif first < after:
                if not reason:
                    raise ValueError(f"edit {edit!r} takes characters away without a reason")
                # two edits that take away all of one source would each report it
                drops += self._uncovered(edit, dropped, survivors, drops[-1].end if drops else 0)
        if at < len(text):
            overlapping = overlapping or _overlaps(starts, ends, old_starts[at], old_ends[at])
            texts.append(text[at:])
            starts += old_starts[at:]
            ends += old_ends[at:]
        if overlapping:
            _unite_overlaps(starts, ends)
        return MappedText("".join(texts), starts, ends, (*self.drops, *drops))

    def sub(self, pattern: re.Pattern[str], speak: Callable[[re.Match[str]], str | None]) -> MappedText:
        """Replace each match by what ``speak`` says; ``None`` leaves it as it is."""
        edits: list[Edit] = []
        for match in pattern.finditer(self.text):
            spoken = speak(match)
            if spoken is not None and spoken != match.group():
                edits.append(Edit(match.start(), match.end(), spoken or " "))
        return self.edit(edits)

    def delete(self, pattern: re.Pattern[str], reason: str, group: int = 0) -> MappedText:
        """Take away every match (or a group of it) and count its characters under ``reason``."""
        return self.edit([Edit(*match.span(group), "", reason) for match in pattern.finditer(self.text)])

    def _source_position(self, index: int) -> int:
        if index < len(self.text):
            return self.starts[index]
        return self.ends[-1] if len(self.text) else 0

    def _uncovered(self, edit: Edit, dropped: Sequence[Span], survivors: _Survivors, from_: int) -> list[Drop]:
        """The part of an edit's source that no character that stays stands for and that is not dropped already."""
        start, end = self.span(edit.start, edit.end)
        if edit.start and self.ends[edit.start - 1] > start and survivors.cover(edit.start):
            start = self.ends[edit.start - 1]
        if edit.end < len(self.text) and self.starts[edit.end] < end and survivors.cover(edit.end - 1):
            end = self.starts[edit.end]
        return [Drop(*span, edit.reason) for span in _without(max(start, from_), end, dropped)]


class _Survivors:
    """Whether anything that can be heard is left of the characters that share a source, once edits are applied."""

    def __init__(self, text: MappedText, edits: Sequence[Edit]) -> None:
        self._text = text
        self._edits = edits
        self._gone: set[int] | None = None
        self._known: dict[Span, bool] = {}

    def cover(self, index: int) -> bool:
        """Whether another character with the source of character ``index`` is said."""
        text = self._text
        span = text.starts[index], text.ends[index]
        if span not in self._known:
            if self._gone is None:
                self._gone = {at for edit in self._edits if not edit.text for at in range(edit.start, edit.end)}
            first = last = index
            while first and (text.starts[first - 1], text.ends[first - 1]) == span:
                first -= 1
            while last + 1 < len(text) and (text.starts[last + 1], text.ends[last + 1]) == span:
                last += 1
            self._known[span] = any(
                at not in self._gone and unicodedata.category(text.text[at])[0] not in "PZ"
                for at in range(first, last + 1)
            )
        return self._known[span]


def _without(start: int, end: int, dropped: Sequence[Span]) -> list[Span]:
    """What is left of ``start`` to ``end`` without ascending, disjoint spans."""
    left: list[Span] = []
    at = bisect_left(dropped, (start, start))
    if at and dropped[at - 1][1] > start:
        at -= 1
    while at < len(dropped) and dropped[at][0] < end:
        if dropped[at][0] > start:
            left.append((start, dropped[at][0]))
        start = max(start, dropped[at][1])
        at += 1
    if start < end:
        left.append((start, end))
    return left


def disjoint(drops: Iterable[Drop]) -> tuple[Drop, ...]:
    """Drops in source order, none of whose characters is counted twice; of two reasons the first one wins."""
    found: list[Drop] = []
    at = 0
    for drop in sorted(drops):
        start = max(at, drop.start)
        if start < drop.end:
            found.append(Drop(start, drop.end, drop.reason))
            at = drop.end
    return tuple(found)


def _overlaps(starts: Sequence[int], ends: Sequence[int], start: int, end: int) -> bool:
    """Whether a span that comes next overlaps the last one without being equal to it."""
    return bool(starts) and start < ends[-1] and (start, end) != (starts[-1], ends[-1])


def _unite_overlaps(starts: list[int], ends: list[int]) -> None:
    """Give characters whose spans overlap without being equal the span of both. Linear: each block is written once."""
    if not starts:
        return
    first = last = 0
    low, high = starts[0], ends[0]
    united = False
    for index in range(1, len(starts)):
        start, end = starts[index], ends[index]
        if start == low and end == high:
            last = index
        elif start < high and start < end:
            low, high = min(low, start), max(high, end)
            last = index
            united = True
        elif start < end or start > high:
            if united:
                _fill(starts, ends, first, last, (low, high))
            first = last = index
            low, high, united = start, end, False
    if united:
        _fill(starts, ends, first, last, (low, high))


def _fill(starts: list[int], ends: list[int], first: int, last: int, span: Span) -> None:
    count = last + 1 - first
    starts[first : last + 1] = [span[0]] * count
    ends[first : last + 1] = [span[1]] * count
