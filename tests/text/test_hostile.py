"""Hostile texts of 100,000 characters: time grows as the text does."""

from __future__ import annotations

import time

import pytest

from tests.timing import assert_linear

from .voices import mandarin_front_end

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from voxrepo_contract.errors import InvalidArgument

FRONT_END = mandarin_front_end()
UNITS = [
    "7",
    "1,",
    "1/",
    "1:",
    "*a",
    "[[a",
    "(",
    "http://a.b/",
    "你",
    "一不",
    "$1",
    "1%",
    "\u0301a",
    "得还",
    "a@",
    "1-",
    "½",
]


def seconds(unit: str, length: int) -> float:
    text = (unit * length)[:length]
    started = time.process_time()
    try:
        FRONT_END.run(text, 1.0, "")
    except InvalidArgument as refused:
        assert "nothing speakable" in str(refused)
    return time.process_time() - started


@pytest.mark.parametrize("unit", UNITS)
def test_100_000_characters_take_linear_time(unit):
    seconds(unit, 1000)
    assert_linear(lambda length: seconds(unit, length), 25_000, 100_000)
