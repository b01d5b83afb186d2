from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from voxrepo.importers.baker import inventory, mandarin_proof_texts, read_symbols
from voxrepo.importers.proof_texts import TEXT_LENGTHS_IDS
from voxrepo_contract.errors import ConfigError

FINALS = (  # noqa: SIM905
    "a ai an ang ao e ei en eng er i ia ian iang iao ie ii iii in ing iong iou o ong ou u ua uai uan uang uei uen ueng "
    "uo v van ve vn"
).split()
INITIALS = "^ b c ch d f g h j k l m n p q r s sh t x z zh".split()  # noqa: SIM905
SYMBOLS = [
    "pad", "sil", "#0", "#1", "#2", "#3", *INITIALS, *(final + tone for final in FINALS for tone in "12345"), "eos",
]  # fmt: skip


def write(folder: Path, table: Any) -> Path:
    file = folder / "symbols.json"
    file.write_text(json.dumps(table), encoding="utf-8")
    return file


def numbered(symbols: list[str]) -> dict[str, int]:
    return {symbol: number for number, symbol in enumerate(symbols)}


def test_symbols_come_in_the_order_of_their_ids(tmp_path: Path):
    table = dict(reversed(numbered(SYMBOLS).items()))
    assert list(read_symbols(write(tmp_path, {"symbol_to_id": table})).items()) == list(numbered(SYMBOLS).items())


def test_the_inventory_frames_a_segment_with_silence_and_pads_nothing():
    table = json.loads(inventory(numbered(SYMBOLS)))
    assert (table["bos"], table["eos"], table["pad"]) == (["sil"], ["sil", "eos"], "")
    assert table["phonemes"]["zh"] == [27]
    assert "pad" not in table["phonemes"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "not a symbol table"),
        ({}, "KeyError"),
        ({"symbol_to_id": {"a": "b"}}, "not a symbol table"),
        ({"symbol_to_id": numbered(SYMBOLS[1:])}, "'pad' is missing"),
        ({"symbol_to_id": numbered(["pad", "sil", "a"])}, "'eos' is missing"),
        ({"symbol_to_id": {**numbered(SYMBOLS), "new": 500}}, "without gaps"),
        ({"symbol_to_id": {**numbered(SYMBOLS), "new": 7}}, "without gaps"),
    ],
)
def test_says_what_is_wrong_with_a_table(tmp_path: Path, table: Any, says: str):
    with pytest.raises(ConfigError) as caught:
        read_symbols(write(tmp_path, table))
    assert says in caught.value.message


def test_a_missing_table_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_symbols(tmp_path / "symbols.json")


def test_proof_texts_are_framed_speech_of_ten_lengths_and_always_the_same():
    phonemes = {symbol: [number] for symbol, number in numbered(SYMBOLS).items()}
    names = dict(enumerate(SYMBOLS))
    texts = list(islice(mandarin_proof_texts(phonemes), 20))
    assert texts == list(islice(mandarin_proof_texts(phonemes), 20))
    for number, text in enumerate(texts):
        symbols = [names[i] for i in text.ids]
        assert 0 <= len(text.ids) - TEXT_LENGTHS_IDS[number % 10] <= 2
        assert symbols[0] == "sil" and symbols[-2:] == ["sil", "eos"]
        body = symbols[1:-2]
        for at in range(0, len(body), 3):
            assert body[at] in INITIALS and body[at + 1][-1] in "12345"
            assert at + 2 >= len(body) or body[at + 2].startswith("#")
