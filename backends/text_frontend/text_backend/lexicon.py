"""A voice's own words: ``files.lexicon`` says how they sound, ``files.rules`` what is said instead.

Both are text files in UTF-8, one entry a line, columns parted by tabs; a line that starts with ``#`` and a blank is
a comment. Byte order marks
and Windows line ends are taken as they come.

``files.lexicon``::

    # written <TAB> pronunciation [<TAB> flags]
    重庆路	chong2 qing4 lu4
    voxrepo	v ˈ ɑ k s ɹ i p o ʊ

The pronunciation is pinyin with tone digits for a Mandarin voice, else symbols of the voice's inventory (IPA; blanks
between them do not count). ``files.rules``::

    # written <TAB> spoken [<TAB> flags]
    kWh	千瓦时
    C++	C plus plus

Flags: ``nocase`` matches capitals and small letters alike; ``anywhere`` matches inside Latin words too (an entry
that begins or ends with a Latin letter or a digit matches whole words only). Longer entries win, and of two that are
as long the one that is written exactly so. Both files are read with the version and change with it.

For an English voice a word of the lexicon may have the ending of a possessive (``Kubo's``, ``Kubos'``), and one with a
capital letter that of a plural (``Kubos``); see :mod:`text_backend.g2p.endings`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from text_backend.mapped import Edit, MappedText
from text_backend.normalisation.unicode import clean
from text_backend.voice_file import content_lines
from voxrepo_contract.errors import ConfigError

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_ENTRY_CHARS = 64
MAX_VALUE_CHARS = 512
MAX_ENTRIES = 6000
"""Characters for private use stand for the words while text is worked on; the basic plane has 6,400."""

_FIRST_MARK = 0xE000
_FLAGS = frozenset({"nocase", "anywhere"})
_NAME_MIN_CHARS = 3


@dataclass(frozen=True)
class Entry:
    """One line of a file."""

    written: str
    value: str
    flags: frozenset[str]
    line: int


@dataclass(frozen=True)
class _Matcher:
    """Finds the longest entry at each place; linear in the text, as entries are short.

    Attributes:
        by_form: entries as they are written.
        by_folded: entries that match capitals and small letters alike, case-folded.
        lengths: of the entries that begin with a character, longest first.
        anywhere: entries that match inside words.
        names: entries that match with the ending of a plural.
    """

    by_form: dict[str, int] = field(default_factory=dict)
    by_folded: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    anywhere: frozenset[int] = frozenset()
    names: frozenset[int] = frozenset()

    @staticmethod
    def of(entries: Sequence[Entry], *, plurals: bool = False) -> _Matcher:
        by_form: dict[str, int] = {}
        by_folded: dict[str, int] = {}
        lengths: dict[str, set[int]] = {}
        for number, entry in enumerate(entries):
            forms = {entry.written}
            by_form[entry.written] = number
            if "nocase" in entry.flags:
                forms.add(entry.written.casefold())
                by_folded[entry.written.casefold()] = number
            for form in forms:
                for first in {form[0], form[0].upper(), form[0].lower()}:
                    lengths.setdefault(first, set()).add(len(form))
        return _Matcher(
            by_form,
            by_folded,
            {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()},
            frozenset(n for n, entry in enumerate(entries) if "anywhere" in entry.flags),
            frozenset(n for n, entry in enumerate(entries) if plurals and _is_name(entry.written)),
        )

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """(start, end, number of the entry) of each match, left to right."""
        found: list[tuple[int, int, int]] = []
        at = 0
        while at < len(text):
            for length in self.lengths.get(text[at], ()):
                number = self._entry(text, at, at + length)
                if number is not None:
                    found.append((at, at + length, number))
                    at += length
                    break
            else:
                at += 1
        return found

    def _entry(self, text: str, start: int, end: int) -> int | None:
        form = text[start:end]
        if len(form) < end - start:
            return None
        number = self.by_form.get(form)
        if number is None and self.by_folded:
            number = self.by_folded.get(form.casefold())
        if number is None or number in self.anywhere:
            return number
        if start and _continues(text[start - 1], text[start]):
            return None
        if end == len(text) or not _continues(text[end - 1], text[end]):
            return number
        return number if number in self.names and _is_plural(text, end) else None


def _is_name(written: str) -> bool:
    """Whether an s behind the word can only be its plural: "Kubos", but neither "news" nor "Uss"."""
    return len(written) >= _NAME_MIN_CHARS and written[-1].isalpha() and written.lower() != written


def _is_plural(text: str, at: int) -> bool:
    small = text[at] == "s" or (text[at] == "S" and text[at - 1].isupper())
    return small and (at + 1 == len(text) or not _continues(text[at], text[at + 1]))


def _continues(left: str, right: str) -> bool:
    return all(character.isascii() and character.isalnum() for character in (left, right))


@dataclass(frozen=True)
class Lexicon:
    """Words with a pronunciation. While the text is worked on, a private-use character stands for each."""

    pronunciations: tuple[tuple[str, ...], ...] = ()
    matcher: _Matcher = field(default_factory=_Matcher)
    english: bool = False
    """Whether the words have the endings of English ones."""

    def mark(self, text: MappedText) -> MappedText:
        """Put its character in place of each word, so that no rule changes it."""
        if not self.pronunciations:
            return text
        return text.edit([Edit(start, end, chr(_FIRST_MARK + n)) for start, end, n in self.matcher.find(text.text)])

    def pronunciation_at(self, character: str) -> tuple[str, ...] | None:
        """Symbols of the word that ``character`` stands for."""
        number = ord(character) - _FIRST_MARK
        return self.pronunciations[number] if 0 <= number < len(self.pronunciations) else None


@dataclass(frozen=True)
class Replacements:
    """What is said instead of what is written."""

    spoken: tuple[str, ...] = ()
    matcher: _Matcher = field(default_factory=_Matcher)

    def apply(self, text: MappedText) -> MappedText:
        """Replace every match. What comes out is not looked at again."""
        if not self.spoken:
            return text
        return text.edit([Edit(start, end, self.spoken[n]) for start, end, n in self.matcher.find(text.text)])


def read_lexicon(
    file: Path,
    parse: Callable[[str], Sequence[str]],
    has_symbol: Callable[[str], bool],
    *,
    is_frame: Callable[[str], bool] = lambda symbol: False,
    english: bool = False,
) -> Lexicon:
    """Read ``files.lexicon``.

    Args:
        file: to read.
        parse: a pronunciation as symbols; a ValueError says what is wrong with it.
        has_symbol: whether the voice can say a symbol.
        is_frame: whether a symbol opens, closes or pads a segment, which no word may.
        english: whether the words have the endings of English ones.

    Raises:
        ConfigError: with file, line and reason.
    """
    entries = _read(file, "pronunciation")
    pronunciations: list[tuple[str, ...]] = []
    for entry in entries:
        try:
            symbols = tuple(parse(entry.value))
        except ValueError as error:
            raise ConfigError(f"{entry.written}: {error}", file=file, line=entry.line) from error
        fault = _fault(symbols, has_symbol, is_frame)
        if fault:
            raise ConfigError(f"{entry.written}: {fault}", file=file, line=entry.line)
        pronunciations.append(symbols)
    return Lexicon(tuple(pronunciations), _Matcher.of(entries, plurals=english), english)


def _fault(symbols: Sequence[str], has_symbol: Callable[[str], bool], is_frame: Callable[[str], bool]) -> str:
    """What is wrong with a pronunciation, empty if nothing is."""
    for symbol in symbols:
        if is_frame(symbol):
            return f"the symbol {symbol!r} opens, closes or pads a segment and is no sound; leave it out"
        if not has_symbol(symbol):
            return f"the voice has no symbol {symbol!r}; use those of its inventory"
    if not any(symbol[0].isalpha() and unicodedata.category(symbol[0]) != "Lm" for symbol in symbols):
        return "the pronunciation has no sound, only marks; the word would be lost"
    return ""


def read_replacements(file: Path) -> Replacements:
    """Read ``files.rules``.

    Raises:
        ConfigError: with file, line and reason.
    """
    entries = _read(file, "what is said")
    return Replacements(tuple(_cleaned(entry, file) for entry in entries), _Matcher.of(entries))


def _cleaned(entry: Entry, file: Path) -> str:
    """What is said, in the form that all characters of a text are brought to before the rules see it."""
    said = clean(MappedText.of(entry.value)).text.strip()
    if not said:
        raise ConfigError(
            "the column 'what is said' holds only emoji or characters that cannot be seen, which say nothing",
            file=file,
            line=entry.line,
        )
    return said


def _read(file: Path, second: str) -> list[Entry]:
    entries: list[Entry] = []
    seen: dict[tuple[str, bool], int] = {}
    for number, content in content_lines(file, MAX_FILE_BYTES):
        if content == "#":
            continue
        entry = _entry(content, number, second, file)
        keys = [(entry.written, False)]
        if "nocase" in entry.flags:
            keys.append((entry.written.casefold(), True))
        for key in keys:
            if key in seen:
                raise ConfigError(
                    f"{entry.written}: is given in line {seen[key]} already; remove one", file=file, line=number
                )
            seen[key] = number
        entries.append(entry)
    if len(entries) > MAX_ENTRIES:
        raise ConfigError(f"{len(entries)} entries; the limit is {MAX_ENTRIES}", file=file)
    return entries


def _entry(line: str, number: int, second: str, file: Path) -> Entry:
    columns = [column.strip() for column in line.split("\t")]
    if any(ord(character) < 32 or 0xE000 <= ord(character) < 0xF900 for character in "".join(columns[:2])):
        raise ConfigError("holds a control or private-use character", file=file, line=number)
    if len(columns) < 2:
        hint = " (blanks do not part columns)" if " " in line.strip() else ""
        raise ConfigError(f"needs a tab between what is written and {second}{hint}", file=file, line=number)
    if len(columns) > 3:
        raise ConfigError(
            f"{len(columns)} columns; there are at most 3: written, {second}, flags", file=file, line=number
        )
    written, value = columns[:2]
    if not written or not value:
        raise ConfigError(f"the column {'written' if not written else second!r} is empty", file=file, line=number)
    # texts are looked through after their characters were brought to one form
    written = clean(MappedText.of(written)).text.strip()
    if not written:
        raise ConfigError(
            "the column 'written' holds only emoji or characters that cannot be seen, which are not looked for",
            file=file,
            line=number,
        )
    if len(written) > MAX_ENTRY_CHARS:
        raise ConfigError(f"{len(written)} characters; the limit is {MAX_ENTRY_CHARS}", file=file, line=number)
    if len(value) > MAX_VALUE_CHARS:
        raise ConfigError(f"{second}: {len(value)} characters; the limit is {MAX_VALUE_CHARS}", file=file, line=number)
    flags = frozenset(columns[2].replace(",", " ").split()) if len(columns) > 2 else frozenset()
    unknown = sorted(flags - _FLAGS)
    if unknown:
        raise ConfigError(f"flags: {unknown[0]!r} is unknown; there are: anywhere, nocase", file=file, line=number)
    return Entry(written, value, flags, number)
