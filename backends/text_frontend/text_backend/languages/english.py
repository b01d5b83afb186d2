"""English.

The scripts are those for whose letters espeak-ng's English voice has a sound or a name of its own, found by asking it
for every letter of Unicode. For all others it says a placeholder ("Chinese letter") or a hexadecimal number, which
loses what the text says; such letters are taken away and counted as unreadable. So are ligatures that stand for whole
phrases, whose names are longer than what they say.
"""

from __future__ import annotations

import unicodedata

from text_backend.g2p.english.names import has_short_name, is_latin
from text_backend.languages.base import Language


def _has_name(letter: str) -> bool:
    """Whether the name of a letter is short enough, see :data:`text_backend.g2p.english.names.NAME_WORDS_MAX`."""
    return is_latin(letter) or unicodedata.category(letter)[0] == "M" or has_short_name(letter)


ENGLISH = Language(
    name="English",
    code="en",
    has_name=_has_name,
    scripts=frozenset(
        {
            "ANGSTROM",
            "ARABIC",
            "ARMENIAN",
            "BENGALI",
            "CYRILLIC",
            "DEVANAGARI",
            "FEMININE",
            "GEORGIAN",
            "GREEK",
            "GUJARATI",
            "GURMUKHI",
            "HANGUL",
            "HEBREW",
            "KANNADA",
            "KELVIN",
            "LATIN",
            "MALAYALAM",
            "MASCULINE",
            "MICRO",
            "MODIFIER",
            "OHM",
            "SINHALA",
            "SUPERSCRIPT",
            "TAMIL",
            "TELUGU",
        }
    ),
)
