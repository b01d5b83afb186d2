"""The symbols of voices trained on the Baker corpus: Mandarin initials, finals with a tone, and prosody marks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from voxrepo.importers.proof_texts import SEED, TEXT_LENGTHS_IDS, ProofText
from voxrepo_contract.errors import ConfigError

SILENCE, END, PAD = "sil", "eos", "pad"
"""A segment is spoken between silences and closed by an end; padding is no sound and stays out of the table."""
BREAKS = ("#0", "#1", "#2", "#3")
"""Between syllables, words, phrases and clauses."""
TONES = ("1", "2", "3", "4", "5")

MAX_FILE_BYTES = 1 << 20

# common syllables, so that the level of the proof is that of speech
_SYLLABLES = (
    ("d", "e"), ("sh", "iii"), ("^", "i"), ("b", "u"), ("l", "e"), ("z", "ai"), ("^", "iou"), ("r", "en"),
    ("zh", "e"), ("j", "i"), ("sh", "ang"), ("d", "a"), ("^", "v"), ("ch", "u"), ("g", "uo"), ("d", "ao"),
    ("^", "ie"), ("^", "uei"), ("m", "en"), ("h", "ao"), ("j", "ia"), ("x", "ia"), ("x", "ve"), ("zh", "ong"),
    ("q", "ian"), ("t", "ian"), ("n", "ian"), ("sh", "eng"), ("m", "ing"), ("k", "ai"), ("f", "ang"), ("l", "ai"),
    ("s", "ii"), ("g", "ong"), ("p", "ing"), ("h", "uo"), ("c", "ong"), ("x", "ing"), ("^", "van"), ("d", "uei"),
    ("b", "ian"), ("m", "ei"), ("l", "iang"), ("n", "v"), ("^", "er"),
)  # fmt: skip


def read_symbols(file: Path) -> dict[str, int]:
    """The symbol table of a voice: ids by symbol, in the order of the ids.

    Raises:
        ConfigError: the file is not the JSON of such a table, or lacks symbols of Mandarin.
    """
    try:
        raw = file.read_bytes()
        if len(raw) > MAX_FILE_BYTES:
            raise ValueError(f"{len(raw)} bytes; the limit is {MAX_FILE_BYTES}")
        table: Any = json.loads(raw.decode("utf-8"))["symbol_to_id"]
        ids = {str(symbol): int(number) for symbol, number in table.items()}
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ConfigError(f'not a symbol table {{"symbol_to_id": ...}}: {error!r}', file=file) from error
    ordered = dict(sorted(ids.items(), key=lambda entry: entry[1]))
    if list(ordered.values()) != list(range(len(ordered))):
        raise ConfigError("symbol_to_id: ids must be 0, 1, 2, ... without gaps", file=file)
    missing = [symbol for symbol in (SILENCE, END, PAD, *BREAKS, "^", "zh", "a1", "iii4") if symbol not in ordered]
    if missing:
        raise ConfigError(
            f"symbol_to_id: {missing[0]!r} is missing; this is not a Mandarin voice of this kind", file=file
        )
    return ordered


def inventory(symbols: Mapping[str, int]) -> str:
    """``inventory.json`` as canonical JSON: keys sorted, no spaces, one newline at the end."""
    table = {
        "phonemes": {symbol: [number] for symbol, number in symbols.items() if symbol != PAD},
        "bos": [SILENCE],
        "eos": [SILENCE, END],
        "pad": "",
    }
    return json.dumps(table, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n"


def mandarin_proof_texts(phonemes: Mapping[str, Sequence[int]]) -> Iterator[ProofText]:
    """An endless, deterministic stream of id sequences made of common syllables; see ``proof_texts``.

    Args:
        phonemes: ids by symbol, as in the inventory.
    """
    generator = np.random.default_rng(SEED)
    number = 0
    while True:
        wanted = TEXT_LENGTHS_IDS[number % len(TEXT_LENGTHS_IDS)]
        ids = [*phonemes[SILENCE]]
        tail = [*phonemes[SILENCE], *phonemes[END]]
        while len(ids) + len(tail) < wanted:
            if len(ids) > 1:
                ids += phonemes[BREAKS[int(generator.choice(4, p=(0.7, 0.2, 0.05, 0.05)))]]
            initial, final = _SYLLABLES[int(generator.integers(len(_SYLLABLES)))]
            ids += [*phonemes[initial], *phonemes[final + TONES[int(generator.integers(5))]]]
        yield ProofText((*ids, *tail), 0)
        number += 1
