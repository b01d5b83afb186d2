"""What becomes of marks: quotes, brackets, stops, dashes.

The rule: the marks between two words, with the white space beside them, are one group, and a group ends in one way.

- It is a **pause** where one of its marks pauses, and at the end of a sentence and between two sentences. All its marks
  are part of that pause: of ``：“`` the colon pauses and the quote opens what follows.
- It is **part of a word** where it is one hyphen, apostrophe, stop, comma, colon or underscore between two Latin
  letters or digits: ``well-known``, ``it's``, ``3.5``.
- Otherwise it is **counted** as ``punctuation``: nothing of it is heard. So are marks before the first word of a text.

White space parts words and is not counted. Signs (``&``, ``#``, ``+``) are no marks: they are said, or counted as
``symbol``.
"""

from __future__ import annotations

from collections.abc import Iterator

from text_backend import dropping
from text_backend.mapped import Drop, MappedText, Span

_INSIDE_WORDS = frozenset("-'.,:_\u2010\u2011\u2019")


def outcome(
    text: MappedText, start: int, end: int, *, pauses: bool, said_before: bool, follows: bool
) -> tuple[Span | None, list[Drop]]:
    """What becomes of the group of marks from ``start`` to ``end``.

    Args:
        text: a sentence.
        start: first character of the group.
        end: end of the group.
        pauses: whether one of its marks pauses.
        said_before: whether anything of the sentence is heard before it.
        follows: whether anything is heard before the sentence.

    Returns:
        Source of the marks that are a pause or part of a word, or drops.
    """
    is_pause = (said_before and (pauses or end == len(text))) or (not said_before and follows)
    if is_pause or (end - start == 1 and _is_inside_word(text.text, start)):
        return text.span(start, end), []
    return None, list(_counted(text, start, end))


def _is_inside_word(text: str, at: int) -> bool:
    """Whether the mark at ``at`` is a hyphen, an apostrophe or the like between two Latin letters or digits."""
    beside = text[at - 1 : at] + text[at + 1 : at + 2]
    return text[at] in _INSIDE_WORDS and len(beside) == 2 and beside.isascii() and beside.isalnum()


def _counted(text: MappedText, start: int, end: int) -> Iterator[Drop]:
    characters, starts, ends = text.text, text.starts, text.ends
    last = len(characters) - 1
    for at in range(start, end):
        if characters[at].isspace():
            continue
        first, after = starts[at], ends[at]
        # a neighbour that came from the same characters, as of "(1)" for "⑴", is heard, and so their source is
        if at and starts[at - 1] == first and ends[at - 1] == after:
            continue
        if at < last and starts[at + 1] == first and ends[at + 1] == after:
            continue
        yield Drop(first, max(first, after), dropping.PUNCTUATION)
