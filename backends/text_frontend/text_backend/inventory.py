"""The phoneme table of a voice: which symbol has which ids."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from text_backend.voice_file import read_limited
from voxrepo_contract.errors import ConfigError

MAX_FILE_BYTES = 1024 * 1024


class UnknownSymbols(Exception):
    """Symbols that the table does not have, in order of appearance."""

    def __init__(self, symbols: Sequence[str]) -> None:
        super().__init__(", ".join(describe_symbol(symbol) for symbol in symbols))
        self.symbols = tuple(symbols)


def describe_symbol(symbol: str) -> str:
    """``symbol`` with its code points, since many phonetic signs look alike or are invisible."""
    points = " ".join(f"U+{ord(character):04X}" for character in symbol)
    name = unicodedata.name(symbol, "") if len(symbol) == 1 else ""
    shown = symbol if symbol.isprintable() and not unicodedata.combining(symbol[0]) else "?"
    return f"{shown!r} ({points}{' ' + name if name else ''})"


@dataclass(frozen=True)
class Inventory:
    """Phoneme symbols and their ids.

    Attributes:
        phonemes: ids of each symbol. Piper's are single code points, Mandarin's are initials, finals with a tone and
            prosody marks.
        bos: ids that open a segment.
        eos: ids that close it.
        pad: ids put after ``bos`` and after each symbol; none for voices trained without.
    """

    phonemes: Mapping[str, tuple[int, ...]]
    bos: tuple[int, ...]
    eos: tuple[int, ...]
    pad: tuple[int, ...]

    @property
    def frame_ids(self) -> int:
        """Ids that a segment has besides those of its symbols."""
        return len(self.bos) + len(self.pad) + len(self.eos)

    def is_frame(self, symbol: str) -> bool:
        """Whether ``symbol`` opens, closes or pads segments."""
        ids = self.phonemes.get(symbol, ())
        return bool(ids) and set(ids) <= {*self.bos, *self.eos, *self.pad}

    def cost_ids(self, symbol: str) -> int:
        """Ids that ``symbol`` takes in a segment, padding included; 0 if it is unknown."""
        ids = self.phonemes.get(symbol)
        return 0 if ids is None else len(ids) + len(self.pad)

    @cached_property
    def costs_ids(self) -> Mapping[str, int]:
        """:meth:`cost_ids` of every symbol of the table."""
        return {symbol: self.cost_ids(symbol) for symbol in self.phonemes}

    @cached_property
    def _padded_ids(self) -> Mapping[str, tuple[int, ...]]:
        return {symbol: (*ids, *self.pad) for symbol, ids in self.phonemes.items()}

    def encode(self, symbols: Sequence[str]) -> list[int]:
        """Ids of one segment: bos, pad, then each symbol's ids followed by pad, eos.

        This is the order that Piper voices are trained with (``phonemes_to_ids`` of piper-tts), except that a
        symbol outside the table is an error here and not left out.

        Raises:
            UnknownSymbols: naming every symbol that is not in the table.
        """
        try:
            spoken = chain.from_iterable(map(self._padded_ids.__getitem__, symbols))
            return [*self.bos, *self.pad, *spoken, *self.eos]
        except KeyError:
            raise UnknownSymbols(list(dict.fromkeys(s for s in symbols if s not in self.phonemes))) from None


def read_inventory(file: Path) -> Inventory:
    """Read ``inventory.json``: ``{"phonemes": {symbol: [ids]}, "bos": "^", "eos": "$", "pad": "_"}``.

    ``bos`` and ``eos`` may be lists of symbols (``["sil", "eos"]``); an empty ``pad`` (``""``) puts nothing between.

    Raises:
        ConfigError: the file is missing, too large, not UTF-8 JSON, or not such a table.
    """
    raw = read_limited(file, MAX_FILE_BYTES)
    try:
        data = json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"not valid UTF-8 JSON: {error}", file=file) from error
    try:
        return parse_inventory(data)
    except ValueError as error:
        raise ConfigError(str(error), file=file) from error


def parse_inventory(data: Any) -> Inventory:
    """Check and convert the decoded content of ``inventory.json``.

    Raises:
        ValueError: with a sentence that names the key at fault.
    """
    if not isinstance(data, dict):
        raise ValueError("must hold an object with the keys phonemes, bos, eos, pad")
    surplus = sorted(set(data) - {"phonemes", "bos", "eos", "pad"})
    if surplus:
        raise ValueError(f"{surplus[0]}: unknown key; remove it or correct its spelling")
    table = data.get("phonemes")
    if not isinstance(table, dict) or not table:
        raise ValueError("phonemes: must be an object that maps each symbol to a list of ids")
    phonemes = {symbol: _ids(symbol, ids) for symbol, ids in table.items()}
    marks = {mark: _mark(mark, data.get(mark), phonemes) for mark in ("bos", "eos", "pad")}
    return Inventory(phonemes=phonemes, **marks)


def _mark(name: str, value: Any, phonemes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    if name == "pad" and value == "":
        return ()
    symbols = value if isinstance(value, list) and name != "pad" else [value]
    for symbol in symbols:
        if not isinstance(symbol, str) or symbol not in phonemes:
            raise ValueError(f"{name}: must be a symbol of phonemes (got {symbol!r})")
    return tuple(i for symbol in symbols for i in phonemes[symbol])


def _ids(symbol: str, ids: Any) -> tuple[int, ...]:
    whole = isinstance(ids, list) and all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in ids)
    if not whole or not ids or not symbol:
        raise ValueError(f"phonemes.{symbol}: must be a list of at least one id >= 0 (got {ids!r})")
    return tuple(ids)
