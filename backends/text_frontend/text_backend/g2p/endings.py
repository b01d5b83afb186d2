"""English endings of the words of a lexicon: "Kubo's", "Kubos", "the Kubos'" are said with the entry of "Kubo"."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ENDING = re.compile("['\u2019]?[sS](?![^\\W_]|['\u2019][^\\W_])")
_PLURAL_POSSESSIVE = re.compile("[sS]['\u2019](?=\\s)")
_SIBILANTS = frozenset("sz\u0283\u0292")
_VOICELESS = frozenset("ptkf\u03b8")


def with_ending(symbols: Sequence[str], text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The word with the ending that stands behind it.

    Args:
        symbols: IPA of the word, one code point each.
        text: of the sentence.
        at: where the text goes on behind the word.

    Returns:
        The symbols, with ``z``, ``s`` or another syllable behind "sibilants", and where the text goes on.
    """
    match = _PLURAL_POSSESSIVE.match(text, at) or _ENDING.match(text, at)
    if match is None:
        return tuple(symbols), at
    return (*symbols, *_sound_of_s(symbols)), match.end()


def _sound_of_s(symbols: Sequence[str]) -> tuple[str, ...]:
    last = next((symbol for symbol in reversed(symbols) if symbol.isalpha()), "")
    if last in _SIBILANTS:
        return ("\u1d7b", "z")
    return ("s",) if last in _VOICELESS else ("z",)
