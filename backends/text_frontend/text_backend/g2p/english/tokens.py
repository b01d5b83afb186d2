"""Clauses and words of an English text: what is read, where it pauses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from text_backend.abbreviations import expand
from text_backend.g2p.english.names import is_latin, is_silent, sign_words
from text_backend.g2p.english.numbers import NUMBER, read_number

_DOTTED = {"e.g.": "for example", "i.e.": "that is", "a.k.a.": "also known as"}
_READ_AS_LETTERS = frozenset({"US", "IT", "AI", "PM", "TV", "ID", "OS", "IP", "UN", "EU", "UK", "AM", "PC", "IO", "OR"})

_TOKEN = re.compile(
    r"""
      (?P<dotted>(?<![^\W_])(?:[^\W\d_]\.){2,})
    | (?P<abbreviation>(?<![^\W_])[A-Za-z]{2,6}\.(?=\s+\S|,))
    | (?P<money>[$€£¥](?=\d))
    | (?P<number>\d)
    | (?P<word>['’]?[^\W\d_]+(?:['’][^\W\d_]+)*)
    | (?P<ellipsis>\.{2,}|[…‥⋯]+)
    | (?P<dash>(?<=\s)-+(?=\s)|--+|[–—―⸺⸻]+)
    | (?P<stop>[.!?,:;，、。｡！？：；]+)
    | (?P<space>\s+)
    | (?P<hyphen>[-‐‑])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ELISIONS = frozenset({"'em", "'til", "'cause", "'bout", "'n", "'tis", "'twas", "'round", "'kay", "'course"})
_CURRENCIES = {"$": ("dollar", "dollars"), "€": ("euro", "euros"), "£": ("pound", "pounds"), "¥": ("yen", "yen")}
_CASE_CHANGE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_DIGITS = re.compile(r"\d+")
_WIDE_STOPS = str.maketrans("，、。｡！？：；", ",,..!?:;")
"""Of East Asian text; they pause as ours do and are never part of a number or an address."""


@dataclass(slots=True)
class Token:
    """A word to be said.

    Attributes:
        text: as written, or the word for a sign or number.
        glued: whether it follows a hyphen or is part of one written word.
        spelled: whether it is said letter by letter.
    """

    text: str
    glued: bool = False
    spelled: bool = False


@dataclass(slots=True)
class TokenClause:
    """Words up to a pause.

    Attributes:
        words: in order, possibly none.
        terminator: the mark at its end, empty for a dash, an ellipsis or the end of the text.
        ends_sentence: whether that mark, or the text's end, ends a sentence.
    """

    words: list[Token] = field(default_factory=list)
    terminator: str = ""
    ends_sentence: bool = False


def clauses(text: str, is_listed: Callable[[str], bool]) -> list[TokenClause]:
    """Cut ``text`` into clauses of words. Runs in linear time.

    Args:
        text: any text.
        is_listed: whether a word (lower case) is in the dictionary; others are taken apart where capitals begin.
    """
    return list(_Reader(text, is_listed).clauses())


class _Reader:
    def __init__(self, text: str, is_listed: Callable[[str], bool]) -> None:
        self._text = unicodedata.normalize("NFC", text)
        self._is_listed = is_listed
        self._clause = TokenClause()
        self._glue = False
        self._all_capitals = text.isupper()
        self._has_ampersand = "&" in text
        self._unit_after_number = ""

    def clauses(self) -> Iterator[TokenClause]:
        text, next_token = self._text, _TOKEN.match
        at = 0
        while at < len(text):
            match = next_token(text, at)
            assert match is not None
            kind = str(match.lastgroup)
            start, at = at, match.end()
            if kind == "number":
                at = self._number(start)
                continue
            if kind == "space":
                pass
            elif kind == "word":
                self._word_text(match.group(), start)
            elif kind in _READERS:
                _READERS[kind](self, match)
            else:
                pause = self._pause(kind, match)
                if pause is not None and self._clause.words:
                    self._clause.terminator, self._clause.ends_sentence = pause
                    yield self._clause
                    self._clause = TokenClause()
            if kind not in ("hyphen", "money"):
                self._glue = False
        if self._clause.words:
            self._clause.ends_sentence = True
            yield self._clause

    def _say(self, text: str, *, glued: bool = False, spelled: bool = False) -> None:
        self._clause.words.append(Token(text, glued and bool(self._clause.words), spelled))

    def _pause(self, kind: str, match: re.Match[str]) -> tuple[str, bool] | None:
        if kind != "stop":
            return "", False
        marks = match.group()
        before, after = self._text[match.start() - 1 : match.start()], self._text[match.end() : match.end() + 1]
        runs_on = before.isalnum() and after.isalnum() and not (before.islower() and after.isupper())
        if marks in (".", ":") and runs_on:
            if marks == ".":
                self._say("dot")
            return None
        marks = marks.translate(_WIDE_STOPS)
        ending = next((mark for mark in "?!" if mark in marks), "." if "." in marks else "")
        return (ending, True) if ending else (marks[-1], False)

    def _number(self, at: int) -> int:
        match = NUMBER.match(self._text, at)
        if match is None:
            # digits with letters behind them: "3D", "2nd1"
            run = _DIGITS.match(self._text, at)
            assert run is not None
            words = read_number(run.group())
            self._say_number(words)
            self._glue = True
            self._say_unit(words)
            return run.end()
        if self._text[at - 1 : at] == "-" and not self._text[at - 2 : at - 1].isalnum():
            self._clause.words.append(Token("minus"))
        words = read_number(match.group(1), match.group(2) or "", match.group(3) or "")
        self._say_number(words)
        self._glue = False
        self._say_unit(words)
        return match.end()

    def _say_number(self, words: Sequence[str]) -> None:
        for number, word in enumerate(words):
            self._say(word, glued=self._glue and not number)

    def _say_unit(self, words: Sequence[str]) -> None:
        if self._unit_after_number:
            one, many = _CURRENCIES[self._unit_after_number]
            self._say(one if words == ["one"] else many)
            self._unit_after_number = ""
            self._glue = False

    def _dotted(self, match: re.Match[str]) -> None:
        known = _DOTTED.get(match.group().lower())
        if known is None:
            self._say(match.group().replace(".", ""), spelled=True)
        for word in (known or "").split():
            self._say(word)

    def _abbreviation(self, match: re.Match[str]) -> None:
        written = match.group()[:-1]
        following = self._text[match.end() : match.end() + 9].lstrip()[:1]
        known = expand(written, following)
        if known is not None:
            for word in known.split():
                self._say(word)
        else:
            self._word_text(written, match.start())

    def _money(self, match: re.Match[str]) -> None:
        self._unit_after_number = match.group()

    def _is_hyphened(self, at: int) -> bool:
        return "-" in (self._text[at - 1 : at], self._text[at + 1 : at + 2])

    def _is_initials(self, start: int, end: int) -> bool:
        """Whether capitals stand next to an ampersand between capitals, as in AT&T."""
        before, after = self._text[max(0, start - 2) : start], self._text[end : end + 2]
        return (before[1:] == "&" and before[0].isupper()) or (after[:1] == "&" and after[1:].isupper())

    def _word_text(self, written: str, at: int) -> None:
        plain = written.replace("’", "'") if "’" in written else written
        if not plain.isascii() and not all(is_latin(letter) for letter in plain):
            for letter in plain:
                for word in [letter] if is_latin(letter) else sign_words(letter):
                    self._say(word)
            return
        if (plain in _READ_AS_LETTERS and not self._all_capitals) or (plain in ("a", "A") and self._is_hyphened(at)):
            self._say(plain, glued=self._glue, spelled=True)
            return
        if self._has_ampersand and len(plain) < 4 and plain.isupper() and self._is_initials(at, at + len(written)):
            self._say(plain, glued=self._glue, spelled=True)
            return
        if plain[0] == "'" and plain.lower() not in _ELISIONS:
            plain = plain[1:]
        if len(plain) == 1 or plain.islower() or self._is_listed(plain.lower()):
            self._say(plain, glued=self._glue)
            return
        parts = _CASE_CHANGE.split(plain)
        for number, part in enumerate(parts):
            self._say(part, glued=self._glue and not number, spelled=len(parts) > 1 and len(part) == 1)

    def _hyphen(self, match: re.Match[str]) -> None:
        before, after = self._text[match.start() - 1 : match.start()], self._text[match.end() : match.end() + 1]
        # between two numbers it is no hyphen of a word: 555-0142
        self._glue = before.isalnum() and after.isalnum() and not (before.isdigit() and after.isdigit())

    def _other(self, match: re.Match[str]) -> None:
        if not is_silent(match.group()):
            for word in sign_words(match.group()):
                self._say(word)


_READERS: dict[str, Callable[[_Reader, re.Match[str]], None]] = {
    "other": _Reader._other,
    "hyphen": _Reader._hyphen,
    "money": _Reader._money,
    "dotted": _Reader._dotted,
    "abbreviation": _Reader._abbreviation,
}
"""What reads a token of each group of the pattern; words, numbers and pauses are told apart before."""
