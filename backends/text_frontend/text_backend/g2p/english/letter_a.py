"""Whether an "A" is the letter ("point A", "A = B", "A380") and not the article ("A dog barked")."""

from __future__ import annotations

import re

_NEXT = re.compile(r"\s*([=+\u00d7\u00f7<>\u2260\u2264\u2265*/&\u2192]|[^\W\d_]+(?![-\u2010\u2011])|)")
_SIGNS = frozenset("=+/&*-\u2010\u2011")
_CLOSING = frozenset("\"'\u201d\u2019)]}\u00bb")
_OPENING = frozenset("\"'\u201c\u2018([{\u00ab")


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_AFTER_A_LETTER = _words(
    "to and or is are was were has had does did will would can could equals plus minus times then than but from with "
    "at in on by for through via versus vs B"
)
"""Words that no article stands before."""
_NAMED_BY_LETTERS = _words(
    "point plan group class grade type section seat vitamin hepatitis level option team series part row gate terminal "
    "appendix exhibit schedule block building tier question answer letter line zone platform route influenza side"
)
"""Nouns that a letter follows."""


def is_letter(text: str, at: int, before: str, *, shouted: bool) -> bool:
    """Whether the word "A" at ``at`` is the letter.

    Args:
        text: that it stands in.
        at: its place.
        before: the word before it in its clause, empty at the beginning.
        shouted: whether the text is in capitals, which tell nothing there.
    """
    following = text[at + 1 : at + 2]
    if following.isdigit() or following in _SIGNS:
        return bool(following)
    if following in _CLOSING:
        return text[at - 1 : at] in _OPENING
    match = _NEXT.match(text, at + 1)
    word = match.group(1) if match is not None else ""
    if not word:
        return False
    if not word[0].isalpha() or word in _AFTER_A_LETTER:
        return True
    if not before or shouted or text[at - 1 : at] in _OPENING:
        return False
    return word[0].islower() or before.lower() in _NAMED_BY_LETTERS
