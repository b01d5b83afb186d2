"""Symbols that a voice was not trained on, replaced by the nearest that it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from text_backend.data import table
from text_backend.g2p.base import Symbols
from text_backend.inventory import Inventory, UnknownSymbols
from text_backend.splitting import Cut
from text_backend.voice_file import content_lines
from voxrepo_contract.errors import ConfigError

_NOTHING = "-"
MAX_FILE_BYTES = 256 * 1024
_DEPTH = 3
_NEUTRAL_TONE = "5"

Alternatives = dict[str, list[tuple[str, ...]]]


def standard_table() -> Alternatives:
    """The table ``data/substitutes.tsv``."""
    return {row[0]: _alternatives(row[1] if len(row) > 1 else _NOTHING) for row in table("substitutes")}


def read_table(file: Path) -> Alternatives:
    """A voice's own ``files.substitutes``, of the same form: symbol, tab, alternatives.

    Raises:
        ConfigError: with file, line and reason.
    """
    found: Alternatives = {}
    lines: dict[str, int] = {}
    for number, content in content_lines(file, MAX_FILE_BYTES):
        symbol, tab, alternatives = content.partition("\t")
        if not tab or not symbol.strip() or not alternatives.strip():
            raise ConfigError("needs a symbol, a tab and what is said instead", file=file, line=number)
        symbol = symbol.strip()
        if symbol in lines:
            raise ConfigError(f"{symbol}: is given in line {lines[symbol]} already; remove one", file=file, line=number)
        lines[symbol] = number
        found[symbol] = _alternatives(alternatives)
    return found


def _alternatives(written: str) -> list[tuple[str, ...]]:
    found = []
    for alternative in written.split(" | ") if written != "|" else [written]:
        symbols = tuple(alternative.split())
        found.append(() if symbols == (_NOTHING,) else symbols)
    return found


class Substitutes:
    """What a voice says for each symbol.

    Args:
        inventory: of the voice.
        own: the voice's own table.
    """

    def __init__(self, inventory: Inventory, own: Alternatives | None = None) -> None:
        self._inventory = inventory
        self._tables = [own or {}, standard_table()]
        self._known: dict[str, tuple[str, ...] | None] = {}

    def check_own(self, file: Path) -> None:
        """Refuse a table of the voice that names symbols it cannot say, which would go unnoticed until they are met.

        Args:
            file: that the own table was read from.

        Raises:
            ConfigError: with file, line and the symbol.
        """
        for number, content in content_lines(file, MAX_FILE_BYTES):
            symbol, _, alternatives = content.partition("\t")
            for instead in dict.fromkeys(s for alternative in _alternatives(alternatives) for s in alternative):
                if not self.has(instead):
                    raise ConfigError(
                        f"{symbol.strip()}: the voice has no symbol {instead!r}; use those of its inventory",
                        file=file,
                        line=number,
                    )

    def apply(self, symbols: Symbols) -> tuple[Symbols, dict[str, str]]:
        """The sentence in symbols that the voice has, and what was put for what.

        Raises:
            UnknownSymbols: symbols for which no table has anything that the voice has.
        """
        if self._inventory.phonemes.keys() >= set(symbols.symbols):
            return symbols, {}
        said: list[str] = []
        cuts: list[Cut] = []
        spans = []
        replaced: dict[str, str] = {}
        unknown: dict[str, None] = {}
        for at, symbol in enumerate(symbols.symbols):
            instead = self._instead(symbol)
            if instead is None:
                unknown[symbol] = None
                continue
            if instead != (symbol,):
                replaced[symbol] = " ".join(instead) or "(nothing)"
            said += instead
            cuts += [Cut.NEVER] * (len(instead) - 1) + [symbols.cuts[at]] if instead else []
            if symbols.spans:
                spans += [symbols.spans[at]] * len(instead)
        if unknown:
            raise UnknownSymbols(list(unknown))
        return Symbols(said, cuts, spans, symbols.drops, symbols.marks), replaced

    def has(self, symbol: str) -> bool:
        """Whether the voice can say ``symbol``, be it by another."""
        return self._instead(symbol) is not None

    def _instead(self, symbol: str) -> tuple[str, ...] | None:
        if symbol not in self._known:
            self._known[symbol] = self._find(symbol, _DEPTH)
        return self._known[symbol]

    def _find(self, symbol: str, depth: int) -> tuple[str, ...] | None:
        if symbol in self._inventory.phonemes:
            return (symbol,)
        if not depth:
            return None
        for alternatives in self._tables:
            for alternative in alternatives.get(symbol, ()):
                found = self._all(alternative, depth - 1)
                if found is not None:
                    return found
        return self._other_tone(symbol)

    def _all(self, symbols: Sequence[str], depth: int) -> tuple[str, ...] | None:
        said: list[str] = []
        for symbol in symbols:
            found = self._find(symbol, depth)
            if found is None:
                return None
            said += found
        return tuple(said)

    def _other_tone(self, symbol: str) -> tuple[str, ...] | None:
        """A final that the voice has in another tone only."""
        final, tone = symbol[:-1], symbol[-1:]
        if not final.isalpha() or not final.isascii() or tone not in "12345":
            return None
        for other in ("1", "4", "2", "3", _NEUTRAL_TONE):
            if final + other in self._inventory.phonemes:
                return (final + other,)
        return None
