"""One form for each character: width, compatibility forms, digits of all scripts, what cannot be seen.

Line ends stay, since sentences are found by them. Superscript digits stay, since they are read (m², x³).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from text_backend import dropping
from text_backend.mapped import Edit, MappedText

EmojiPolicy = Literal["skip", "name"]

_LINE_ENDS = "\n\r\v\f\x85\u2028\u2029"
_FOLDED_TAGS = ("<wide>", "<narrow>", "<font>", "<square>", "<circle>", "<sub>", "<fraction>", "<vertical>")
_KEPT = "\uff0c\u2122\u2120"
# the full-width comma never parts the digits of one number; the trade mark is a word, not two letters
_FOLDED_BLOCKS = (
    range(0x2100, 0x2150),  # letterlike
    range(0x2460, 0x249C),  # numbers in circles and brackets
    range(0x2F00, 0x2FD6),  # radicals that stand for their character
    range(0x3200, 0x3400),  # CJK in brackets, squared units
    range(0xFB00, 0xFB07),  # ligatures
)
_ROMAN = {chr(0x2160 + n): str(n + 1) for n in range(12)} | {chr(0x2170 + n): str(n + 1) for n in range(12)}

# Unicode blocks whose symbols are pictures (emoji-data.txt names them Emoji or Extended_Pictographic). The copyright,
# trade and arrow signs are not among them: they are read as words.
_EMOJI = (
    range(0x2600, 0x27C0),
    range(0x2B1B, 0x2B1D),
    range(0x2B50, 0x2B51),
    range(0x2B55, 0x2B56),
    range(0x1F000, 0x1FB00),
)
_NAMED_SIGNS = "\u2713\u2714\u2717\u2718\u2640\u2642"
_INVISIBLE = (range(0xFE00, 0xFE10), range(0xE0000, 0xE01F0), range(0x0300, 0x0370), range(0x3164, 0x3165))
_MAYBE_CHANGED = re.compile("[^ -~\n\r\u4e00-\u9fff\u3001\u3002\uff0c\u201c\u201d\u2018\u2019\u300a\u300b]")
_ABBREVIATED = {"\u2116": "No.", "\u2121": "Tel."}


def clean(text: MappedText, emoji: EmojiPolicy = "skip", language: str = "en", *, fractions: bool = True) -> MappedText:
    """Bring every character to the form that the later steps know.

    Args:
        text: what came in.
        emoji: pass pictures over, or say their names.
        language: of the names.
        fractions: write ``½`` as 1/2, for rules that read it; off, it stays one character.
    """
    if text.text.isascii() and _MAYBE_CHANGED.search(text.text) is None:
        return text
    if emoji == "name":
        text = _name_emoji(text, language)
    text = _compose(text)
    edits: list[Edit] = []
    for match in _MAYBE_CHANGED.finditer(text.text):
        character = match.group()
        spoken, reason = _outcome(character)
        if not fractions and unicodedata.decomposition(character).startswith("<fraction>"):
            continue
        if spoken != character:
            at = match.start()
            if spoken[:1].isdigit() and at and _is_parted(text.text[at - 1], character):
                spoken = " " + spoken  # 3½ is 3 1/2, ①② is 1 2
            following = text.text[at + 1 : at + 2]
            if spoken[-1:].isdigit() and "0" <= following <= "9" and _is_parted(following, character):
                spoken += " "
            is_index = unicodedata.decomposition(character).startswith("<sub>") and spoken.isdigit()
            goes_on = not following.isascii() and unicodedata.decomposition(following).startswith("<su")
            if is_index and following.isdigit() and not goes_on:
                spoken += " "  # log₂8 is log 2 of 8
            edits.append(Edit(at, at + 1, spoken, reason))
    return text.edit(edits)


@lru_cache(maxsize=8192)
def _outcome(character: str) -> tuple[str, str]:
    """What stands for a character, and the reason if nothing does."""
    point = ord(character)
    if character in _LINE_ENDS or character in _KEPT or character in _NAMED_SIGNS:
        return character, ""
    if character.isspace():
        return " ", ""
    if character in _ROMAN:
        return _ROMAN[character], ""
    if character in _ABBREVIATED:
        return _ABBREVIATED[character], ""
    decomposition = unicodedata.decomposition(character)
    if any(point in block for block in _EMOJI):
        # among the pictures are letters and digits in frames; those are read
        return (_folded(character), "") if decomposition else ("", dropping.EMOJI)
    if any(point in block for block in _INVISIBLE):
        return "", dropping.INVISIBLE
    category = unicodedata.category(character)
    if category in ("Cf", "Me"):
        return "", dropping.INVISIBLE
    if category in ("Cc", "Cn", "Co", "Cs"):
        return "", dropping.CONTROL
    if category == "Nd":
        return str(unicodedata.decimal(character)), ""
    if decomposition.startswith(_FOLDED_TAGS) or (decomposition and any(point in b for b in _FOLDED_BLOCKS)):
        return _folded(character), ""
    return character, ""


@lru_cache(maxsize=8192)
def _is_parted(before: str, numeral: str) -> bool:
    """Whether two digits are two numbers: next to a numeral of its own form (½, ①, Ⅷ) another number begins."""
    if unicodedata.numeric(before, None) is None:
        return False
    return any(
        unicodedata.category(character) in ("No", "Nl") and not unicodedata.decomposition(character).startswith("<su")
        for character in (before, numeral)
    )


def _folded(character: str) -> str:
    folded = unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    return folded if folded.strip() else " "


def _compose(text: MappedText) -> MappedText:
    """Canonical composition (NFC), cluster by cluster so that spans stay narrow."""
    if unicodedata.is_normalized("NFC", text.text):
        return text
    edits: list[Edit] = []
    characters = text.text
    start = 0
    for index in range(1, len(characters) + 1):
        if index < len(characters) and _joins(characters[index]):
            continue
        cluster = characters[start:index]
        if not cluster.isascii():
            composed = unicodedata.normalize("NFC", cluster)
            if composed != cluster:
                edits.append(Edit(start, index, composed))
        start = index
    return text.edit(edits)


@lru_cache(maxsize=8192)
def _joins(character: str) -> bool:
    # vowels and finals of Hangul compose with what is before them though they are no combining marks
    return unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff"


def _name_emoji(text: MappedText, language: str) -> MappedText:
    import emoji  # 30 MB of names: only for voices that say them

    if language in emoji.LANGUAGES:
        emoji.config.load_language(language)  # does nothing the second time
    edits: list[Edit] = []
    for found in emoji.emoji_list(text.text):
        names = emoji.EMOJI_DATA[found["emoji"]]
        name = str(names.get(language) or names["en"]).strip(":").replace("_", " ")
        edits.append(Edit(found["match_start"], found["match_end"], f" {name} "))
    return text.edit(edits)
