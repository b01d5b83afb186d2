"""Rules that hold in every language: from the characters of a sentence to those that are spoken.

Nothing that has a reading is taken away. What goes: format and control characters, emoji, and marks of layout
(Markdown emphasis, headings and bullets, ruled lines). What changes: full-width, half-width and mathematical
letters become plain ones, digits of all scripts become 0-9, white space becomes a blank, base letters and
combining marks become one character where Unicode has it. All patterns run in linear time.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

_FOLDED_TAGS = ("<wide>", "<narrow>", "<font>")
_LATIN_LIGATURES = range(0xFB00, 0xFB07)
_REMOVED_CATEGORIES = ("Cc", "Cf", "Me", "Cn", "Co")
_READ_SYMBOLS = "%&@"

# Unicode blocks whose symbols are pictures (emoji-data.txt names them Emoji or Extended_Pictographic), plus the
# joiners, selectors and tags that build sequences from them. The copyright, trade and arrow signs stay: they are
# read as words.
_EMOJI = (
    range(0x2600, 0x27C0),
    range(0x2B1B, 0x2B1D),
    range(0x2B50, 0x2B51),
    range(0x2B55, 0x2B56),
    range(0xFE00, 0xFE10),
    range(0x1F000, 0x1FB00),
    range(0xE0000, 0xE01F0),
)

_RULED_LINE = re.compile(r"([-=*_~#+|<>^])\1{2,}")
_LINE_MARK = re.compile(r"^\s*(?:#{1,6}|[*\u2022\u2023\u25e6\u25aa-]{1,3}|>{1,3})\s+")
_EMPHASIS_OPENS = re.compile("(?<![\\w*`)])[*`]{1,3}(?=[\\w\"'(\\u201c\\u2018])")
_EMPHASIS_CLOSES = re.compile("(?<=[\\w.,;:!?)\"'\\u201d\\u2019\\u2026])[*`]{1,3}(?![\\w*`(])")


@lru_cache(maxsize=4096)
def _spoken_character(character: str) -> str:
    point = ord(character)
    if character.isspace():
        return " "
    if any(point in block for block in _EMOJI):
        # among the pictures are letters and digits in frames; those are read
        return unicodedata.normalize("NFKC", character) if unicodedata.decomposition(character) else ""
    category = unicodedata.category(character)
    if category in _REMOVED_CATEGORIES:
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(_FOLDED_TAGS) or point in _LATIN_LIGATURES:
        return unicodedata.normalize("NFKC", character)
    return character


@dataclass(frozen=True)
class Language:
    """One language.

    Attributes:
        name: for messages, e.g. ``English``.
        code: ISO 639 code for sentence ends.
        scripts: scripts whose letters have a reading, as the first word of a letter's Unicode name (``LATIN``);
            empty if not known, then every script passes.
    """

    name: str
    code: str
    scripts: frozenset[str] = frozenset()

    def normalise(self, sentence: str) -> str:
        """The spoken form of one sentence, see the module's text."""
        if not sentence.isascii():
            sentence = unicodedata.normalize("NFC", sentence)
        spoken = "".join(map(_spoken_character, sentence))
        spoken = _RULED_LINE.sub(" ", spoken)
        spoken = _LINE_MARK.sub("", spoken)
        spoken = _EMPHASIS_OPENS.sub("", spoken)
        spoken = _EMPHASIS_CLOSES.sub("", spoken)
        return spoken.strip()

    def is_speakable(self, spoken: str) -> bool:
        """Whether a normalised sentence has anything to say: a letter, a digit, a sign that is read as a word."""
        return any(
            character.isalnum() or character in _READ_SYMBOLS or unicodedata.category(character) in ("Sc", "Sm", "So")
            for character in spoken
        )

    def unreadable(self, spoken: str) -> list[str]:
        """Letters of ``spoken`` in scripts that have no reading in this language, each once, in order."""
        if not self.scripts or spoken.isascii():
            return []
        letters = dict.fromkeys(character for character in spoken if character.isalpha())
        return [letter for letter in letters if script_of(letter) not in self.scripts]


def script_of(letter: str) -> str:
    """First word of the letter's Unicode name, which for letters is the script; ``?`` without a name."""
    return unicodedata.name(letter, "?").split()[0]
