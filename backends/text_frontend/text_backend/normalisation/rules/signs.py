"""Signs that are left over when all other rules have run: said by name, or counted as dropped."""

from __future__ import annotations

import re
import unicodedata

from text_backend import dropping
from text_backend.data import table
from text_backend.mapped import Edit, MappedText
from text_backend.normalisation.rules.base import HAN, is_mixed, language_at

_NAMES = {row[0]: {"zh": row[1], "en": row[2]} for row in table("signs")}
_SIGN = re.compile("[" + "".join(re.escape(sign) for sign in _NAMES) + "]|[^\\w\\s!-/:-@\\[-`{-~\u3000-\u303f\uff0c]")
_PHRASING = frozenset(
    "-\u2010\u2011\u2012\u2013\u2014\u2015\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2025\u2026\u22ef"
    "\u00b7\u2022\u30fb\u00ab\u00bb\u2039\u203a\u00a1\u00bf\u2043\u2016"
    "\u2044\u2500\u2501\u2502\u2503|"
)
_SPELLED_OUT_EN = frozenset("%&@#+=$*/\\~<>")
# signs that every English phonemizer reads by itself
_HAN_SLASH = re.compile(f"(?<=[{HAN}])[ ]?/[ ]?(?=[{HAN}])")
_FACTOR_BEFORE = re.compile("[\\w)\\]%\u00b2\u00b3\u2103°]")
_FACTOR_AFTER = re.compile("[\\w(\\[-]")
_HAN = re.compile(f"[{HAN}]")
_DRAWN = frozenset("打画标划选叉错是为用")
_AND_OR = re.compile("和[ ]?/[ ]?或")


def say_signs(text: MappedText, language: str) -> MappedText:
    """Say every sign that has a name; take away, and count, the symbols that have none.

    Punctuation stays: it is a pause or shapes the phrase. A tilde that draws out a word is a pause, and so is a
    stroke between Chinese words.
    """
    if language == "zh":
        text = text.sub(_AND_OR, lambda match: "或")
        text = text.sub(_HAN_SLASH, lambda match: "\u3001")
    edits: list[Edit] = []
    mixed = is_mixed(text.text, language)
    for match in _SIGN.finditer(text.text):
        sign = match.group()
        if language == "en" and sign in _SPELLED_OUT_EN and sign not in {"<", ">", "~"}:
            continue
        spoken = _spoken(text.text, match.start(), sign, language, mixed)
        if spoken is None:
            continue
        edits.append(Edit(match.start(), match.end(), spoken, "" if spoken else dropping.SYMBOL))
    return text.edit(edits)


def _multiplies(text: str, at: int) -> bool:
    """Whether a cross stands between what can be multiplied: 3×5, 长×宽."""
    before, after = text[max(0, at - 2) : at].rstrip()[-1:], text[at + 1 : at + 3].lstrip()[:1]
    if not before or not after or "某" in (before, after):
        return bool(after) and after.isdigit()
    return _FACTOR_BEFORE.match(before) is not None and _FACTOR_AFTER.match(after) is not None


def _hidden(text: str, at: int) -> str:
    """A cross for a character that is not written: 李××; or one that was drawn: 打×."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return "某" if "\u00d7" in (before, after) or (before and _HAN.match(before) and before not in _DRAWN) else "叉"


def _spoken(text: str, at: int, sign: str, language: str, mixed: bool) -> str | None:
    """What stands for a sign; ``None`` to keep it, nothing to drop it."""
    if sign in _PHRASING:
        return None
    if sign == "~" and not text[at + 1 : at + 2].isdigit():
        return " "
    if sign == "\u00d7" and language == "zh" and not _multiplies(text, at):
        return _hidden(text, at)
    names = _NAMES.get(sign)
    if names is not None:
        if language == "zh" and (not mixed or language_at(text, at, at + 1, language) == "zh"):
            return names["zh"]
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        return f"{'' if before.isspace() else ' '}{names['en']}{' ' if after.isalnum() else ''}"
    category = unicodedata.category(sign)
    if category[0] in "PLMN" or category == "Co":
        return None  # marks of the lexicon are for private use
    return ""
