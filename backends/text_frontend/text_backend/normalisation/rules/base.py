"""What a rule is, and in which language the text around a match is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from text_backend import dropping
from text_backend.mapped import Edit, MappedText
from text_backend.normalisation.rules.requirements import required

HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters, as the inside of a character class."""

_LETTER = re.compile(f"[A-Za-z\u00c0-\u024f{HAN}]")
_HAN = re.compile(f"[{HAN}]")
_SENTENCE_END = re.compile("[\u3002\uff01\uff1f!?;\uff1b\n\uff0c]|[.,](?=\\s|\\Z)")
_LATIN = re.compile("[A-Za-z]")
_NEAR = 48

Speak = Callable[[re.Match[str], str], str | None]


def _nothing(match: re.Match[str]) -> int:
    return 0


def pattern(regex: str, flags: re.RegexFlag = re.ASCII) -> re.Pattern[str]:
    """A pattern for which only ASCII letters are word characters: in Chinese nothing parts a number from a word."""
    return re.compile(regex, flags | re.ASCII)


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: shown by ``explain``.
        pattern: what it looks for.
        speak: (match, ``en`` or ``zh``) -> what is said, ``None`` to leave the match as it is.
        unsaid: how many characters at the start of a match are not said; they are counted as markup.
    """

    name: str
    pattern: re.Pattern[str]
    speak: Speak
    unsaid: Callable[[re.Match[str]], int] = _nothing

    @cached_property
    def needs(self) -> tuple[frozenset[str], ...]:
        """Sets of characters; a text without any of one of them has no match."""
        return required(self.pattern)

    def may_match(self, characters: frozenset[str]) -> bool:
        """Whether a text of these characters may hold a match."""
        return not any(needed.isdisjoint(characters) for needed in self.needs)

    def apply(self, text: MappedText, language: str) -> MappedText:
        """Say every match.

        Args:
            text: any text.
            language: of the voice; inside Chinese, matches between English words are said in English.
        """
        edits: list[Edit] = []
        characters, speak = text.text, self.speak
        mixed: bool | None = None
        for match in self.pattern.finditer(characters):
            start, end = match.span()
            if mixed is None:
                mixed = is_mixed(characters, language)
            spoken = speak(match, language_at(characters, start, end, language) if mixed else language)
            if spoken is None or spoken == match.group():
                continue
            # the cheap tests first: a text may be nothing but matches
            if not spoken or spoken[0].isascii() or spoken[-1].isascii():
                spoken = _spaced(characters, match, spoken)
            unsaid = self.unsaid(match)
            if unsaid:
                edits.append(Edit(start, start + unsaid, "", dropping.MARKUP))
            edits.append(Edit(start + unsaid, end, spoken))
        return text.edit(edits)


def is_mixed(text: str, language: str) -> bool:
    """Whether :func:`language_at` may find another language in ``text`` than that of the voice."""
    return language == "zh" and _LATIN.search(text) is not None


def language_at(text: str, start: int, end: int, language: str) -> str:
    """Language in which the characters from ``start`` to ``end`` are to be read.

    For an English voice always English. For a Mandarin voice English where the nearest letters on both sides are
    Latin ("for 2 people"), or the only side that has letters is, in a sentence without Chinese nearby.
    """
    if language != "zh":
        return "en"
    before = text[max(0, start - _NEAR) : start]
    after = text[end : end + _NEAR]
    if _LATIN.search(before) is None and _LATIN.search(after) is None:
        return "zh"
    return _language_between(before, after)


@lru_cache(maxsize=4096)
def _language_between(before: str, after: str) -> str:
    ends = [m.end() for m in _SENTENCE_END.finditer(before)]
    before = before[ends[-1] :] if ends else before
    closing = _SENTENCE_END.search(after)
    after = after[: closing.start()] if closing else after
    left = _last_letter(before)
    right = _LETTER.search(after)
    if left is None and right is None:
        return "zh"
    if left is None or right is None:
        return "zh" if _HAN.search(before + after) or not _has_word(before + after) else "en"
    return "en" if left.isascii() and right.group().isascii() and _has_word(before) and _has_word(after) else "zh"


_WORD = re.compile("[A-Za-z][a-z]{2,}|\\b(?:a|I|is|of|at|in|on|to|by|or|an|we|he|it)\\b")


def _has_word(text: str) -> bool:
    """Whether there is an English word, not only initials."""
    return _WORD.search(text) is not None


def _last_letter(text: str) -> str | None:
    for character in reversed(text):
        # the cheap test first: this runs for every match
        if character.isalpha() and _LETTER.match(character):
            return character
    return None


def _spaced(text: str, match: re.Match[str], spoken: str) -> str:
    """Keep Latin words apart from what stands next to them."""
    if not spoken:
        return " "
    if match.start() and spoken[0].isascii() and spoken[0].isalnum():
        before = text[match.start() - 1]
        if before.isascii() and before.isalnum():
            spoken = " " + spoken
    if match.end() < len(text) and spoken[-1].isascii() and spoken[-1].isalnum():
        after = text[match.end()]
        if after.isascii() and after.isalnum():
            spoken += " "
    return spoken
