"""English.

The scripts are those for whose letters espeak-ng's English voice has a sound or a name of its own, found by asking it
for every letter of Unicode. For all others it says a placeholder ("Chinese letter") or a hexadecimal number, which
loses what the text says; such letters are taken away and counted as unreadable.
"""

from __future__ import annotations

from text_backend.languages.base import Language

ENGLISH = Language(
    name="English",
    code="en",
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
