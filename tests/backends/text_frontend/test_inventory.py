from __future__ import annotations

import json

import pytest
from text_backend.inventory import UnknownSymbols, parse_inventory, read_inventory

from voxrepo_contract.errors import ConfigError

PHONEMES = {"_": [0], "^": [1], "$": [2], "a": [3], "b": [4, 5]}
TABLE = {"phonemes": PHONEMES, "bos": "^", "eos": "$", "pad": "_"}


def test_puts_padding_after_every_symbol_as_piper_does():
    assert parse_inventory(TABLE).encode(["a", "b"]) == [1, 0, 3, 0, 4, 5, 0, 2]


def test_costs_add_up_to_the_length_of_the_encoding():
    inventory = parse_inventory(TABLE)
    symbols = ["a", "b", "b"]
    assert inventory.frame_ids + sum(map(inventory.cost_ids, symbols)) == len(inventory.encode(symbols))


def test_names_every_unknown_symbol_once_with_its_code_point():
    with pytest.raises(UnknownSymbols) as caught:
        parse_inventory(TABLE).encode(["x", "a", "\u0303", "x"])
    assert caught.value.symbols == ("x", "\u0303")
    assert "U+0078" in str(caught.value)
    assert "U+0303 COMBINING TILDE" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"bos": "?"}, "bos"),
        ({"pad": None}, "pad"),
        ({"phonemes": {}}, "phonemes"),
        ({"phonemes": {**PHONEMES, "c": "3"}}, "phonemes.c"),
        ({"phonemes": {**PHONEMES, "c": [-1]}}, "phonemes.c"),
        ({"phonemes": {**PHONEMES, "c": [True]}}, "phonemes.c"),
        ({"phonemes": {**PHONEMES, "c": []}}, "phonemes.c"),
        ({"extra": 1}, "extra"),
    ],
)
def test_refuses_a_wrong_table_and_names_the_key(change, key):
    with pytest.raises(ValueError, match=key):
        parse_inventory({**TABLE, **change})


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"phonemes": 1}', b"[" * 100_000])
def test_refuses_a_broken_file_and_names_it(tmp_path, content):
    file = tmp_path / "inventory.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"inventory\.json"):
        read_inventory(file)


def test_a_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match=r"inventory\.json"):
        read_inventory(tmp_path / "inventory.json")


def test_reads_a_table_written_as_utf_8(tmp_path):
    file = tmp_path / "inventory.json"
    table = {**TABLE, "phonemes": {**PHONEMES, "\u02c8": [120]}}
    file.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    assert read_inventory(file).encode(["\u02c8"]) == [1, 0, 120, 0, 2]
