"""Sentences, lines and paragraphs of a text, as spans that cover it without gap or overlap.

Sentence ends inside a line are found by ``sentencex`` (MIT, native code). Lines are handled here: a blank line
ends a paragraph, a line end ends a sentence (list items and headings have no full stop), except where the text is
evidently wrapped to a fixed width.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum

import sentencex

from voxrepo_contract.errors import Internal

_WINDOW_CHARS = 2048
# sentencex is quadratic on some inputs (mixed quotes); over windows of fixed size the whole stays linear.

_WRAPPED_LINE_MIN_CHARS = 40
# shortest line that may be taken for one that continues below; list items and verse are mostly shorter

_LINE = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]*(?:\r\n|[\n\r\v\f\x85\u2028\u2029]|\Z)")
_WHITESPACE = re.compile(r"\s")
_ENUMERATOR = re.compile(r"\s*[(\[]?(?:\d{1,3}|[A-Za-z])[.)\]]{1,2}\s*")
_CLOSED_LINE = re.compile("[.!?:;\\u2026\\u3002][\"')\\]\\u201d\\u2019\\u00bb*_]*\\Z")


class Break(IntEnum):
    """What follows a sentence."""

    NONE = 0
    """The sentence goes on: it was cut only because of its length."""
    SENTENCE = 1
    PARAGRAPH = 2


@dataclass(frozen=True)
class Sentence:
    """Characters ``start`` to ``end`` of a text, trailing white space included."""

    start: int
    end: int
    closes: Break


def segment(text: str, language: str) -> list[Sentence]:
    """Cut ``text`` into sentences.

    Args:
        text: any text, of any length; time is linear in it.
        language: ISO 639 code whose abbreviations apply (``en``).

    Returns:
        Spans in order; the first starts at 0, each starts where the last ended, the final one ends at
        ``len(text)``. Empty for an empty text.

    Raises:
        Internal: the sentence library failed.
    """
    sentences: list[Sentence] = []
    for start, end, closes in _blocks(text):
        sentences += _sentences_of_block(text, start, end, closes, language)
    return sentences


def _blocks(text: str) -> list[tuple[int, int, Break]]:
    """Spans without a meaningful line end inside; a blank line goes to the block before it."""
    blocks: list[tuple[int, int, Break]] = []
    previous = ""
    for match in _LINE.finditer(text):
        content = match.group().strip()
        start, end, closes = blocks[-1] if blocks else (0, 0, Break.NONE)
        if content and closes is Break.SENTENCE and _continues(previous, content):
            blocks[-1] = (start, match.end(), Break.SENTENCE)
        elif content:
            blocks.append((end, match.end(), Break.SENTENCE))
        elif blocks and match.group():
            blocks[-1] = (start, match.end(), Break.PARAGRAPH)
        previous = content or previous
        if blocks and match.group().endswith("\u2029"):
            blocks[-1] = (*blocks[-1][:2], Break.PARAGRAPH)
    if text and not blocks:
        return [(0, len(text), Break.PARAGRAPH)]
    return blocks


def _continues(line: str, following: str) -> bool:
    """Whether ``following`` goes on with the sentence of the line above it."""
    if line.endswith(","):
        return True
    wrapped = len(line) >= _WRAPPED_LINE_MIN_CHARS and _CLOSED_LINE.search(line) is None
    return wrapped and following[0].islower()


def _sentences_of_block(text: str, start: int, end: int, closes: Break, language: str) -> list[Sentence]:
    # sentencex slices by bytes next to white space and panics on the kinds longer than one byte
    plain = _WHITESPACE.sub(" ", text[start:end])
    sentences: list[Sentence] = []
    at = 0
    while at < len(plain):
        window = plain[at : at + _WINDOW_CHARS]
        ends = [at + boundary for boundary in _sentence_ends(window, language)]
        kind = Break.SENTENCE
        if at + len(window) < len(plain):
            # the last sentence may go on beyond the window: it is the next window's first, unless it fills this one
            if len(ends) > 1:
                ends.pop()
            else:
                ends, kind = [at + _cut_of_window(window)], Break.NONE
        for boundary in ends:
            sentences.append(Sentence(start + at, start + boundary, kind))
            at = boundary
    sentences = _merge_fragments(text, sentences)
    sentences[-1] = replace(sentences[-1], closes=closes)
    return sentences


def _cut_of_window(window: str) -> int:
    space = window.rfind(" ", len(window) // 2)
    return len(window) if space < 0 else space + 1


def _sentence_ends(window: str, language: str) -> list[int]:
    try:
        found = sentencex.get_sentence_boundaries(language, window)
    except BaseException as error:
        # a panic of the native code arrives as a BaseException of its own; nothing else may be swallowed here
        if type(error).__name__ != "PanicException":
            raise
        raise Internal(f"text: the sentence segmenter failed: {error}") from error
    ends = [int(boundary["end_index"]) for boundary in found]
    if not ends or ends[-1] != len(window):
        ends.append(len(window))
    return ends


def _merge_fragments(text: str, sentences: list[Sentence]) -> list[Sentence]:
    """Join "1." with what it numbers, and white space with the sentence before it."""
    merged: list[Sentence] = []
    for sentence in sentences:
        before = merged[-1] if merged else None
        if before is None:
            merged.append(sentence)
        elif not text[sentence.start : sentence.end].strip():
            merged[-1] = replace(before, end=sentence.end)
        elif _ENUMERATOR.fullmatch(text, before.start, before.end):
            merged[-1] = replace(sentence, start=before.start)
        else:
            merged.append(sentence)
    return merged
