"""What holds for a language as a whole: its name, its code, the scripts that can be read in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from text_backend import dropping
from text_backend.mapped import Edit, MappedText
from text_backend.normalisation.scripts import script_name

_READ_SYMBOLS = "%&@"
_PRIVATE_USE = "Co"
_MARKS_AND_NUMERALS = frozenset({"Mn", "Mc", "Me", "Nl", "No"})


@dataclass(frozen=True)
class Language:
    """One language.

    Attributes:
        name: for messages, e.g. ``English``.
        code: ISO 639 code: of the rules of normalisation and of sentence ends.
        scripts: scripts whose letters have a reading, as the first word of a letter's Unicode name (``LATIN``);
            empty if not known, then every letter goes to the grapheme-to-phoneme step.
        has_name: whether a letter or numeral outside Latin can be said by its name; those that cannot have no reading.
    """

    name: str
    code: str
    scripts: frozenset[str] = frozenset()
    has_name: Callable[[str], bool] | None = None

    def is_speakable(self, spoken: str) -> bool:
        """Whether a normalised sentence has anything to say: a letter, a digit, a sign or word of the lexicon."""
        return any(
            character.isalnum()
            or character in _READ_SYMBOLS
            or unicodedata.category(character) in ("Sc", "Sm", "So", _PRIVATE_USE)
            for character in spoken
        )

    def unreadable(self, spoken: str) -> list[str]:
        """Letters of ``spoken`` in scripts that have no reading in this language, each once, in order."""
        if not self.scripts or spoken.isascii():
            return []
        letters = dict.fromkeys(c for c in spoken if c.isalpha() or unicodedata.category(c) in _MARKS_AND_NUMERALS)
        return [letter for letter in letters if not self._is_read(letter)]

    def _is_read(self, letter: str) -> bool:
        if not letter.isascii() and self.has_name is not None and not self.has_name(letter):
            return False
        if unicodedata.category(letter)[0] == "N":
            return True
        if script_name(letter) not in self.scripts:
            return False
        # points and accents of other scripts have no sound of their own; signs for vowels do
        is_mark = unicodedata.category(letter)[0] == "M"
        return not is_mark or "VOWEL SIGN" in unicodedata.name(letter, "")

    def without_unreadable(self, text: MappedText) -> MappedText:
        """Take the letters without a reading away and count them; words stay apart."""
        unreadable = set(self.unreadable(text.text))
        if not unreadable:
            return text
        edits: list[Edit] = []
        for at, character in enumerate(text.text):
            if character in unreadable:
                if character.isalpha() and at and text.text[at - 1] not in unreadable and text.text[at - 1].isalnum():
                    edits.append(Edit(at, at, " "))
                edits.append(Edit(at, at + 1, "", dropping.UNREADABLE))
        return text.edit(edits)
