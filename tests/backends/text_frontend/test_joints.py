"""Words that come from one written word stay apart, and Chinese characters do not change English numbers."""

from __future__ import annotations

import time

import pytest
from text_backend.joints import letters_apart, parted, without_foreign_counters
from text_backend.mapped import Edit, MappedText


def _said(source: str, *edits: tuple[int, int, str]) -> MappedText:
    return MappedText.of(source).edit([Edit(*edit) for edit in edits])


@pytest.mark.parametrize(
    ("source", "edit", "expected"),
    [
        ("β2", (1, 2, "two"), "β two"),
        ("2π", (0, 1, "two"), "two π"),
        ("é2", (1, 2, "two"), "é two"),
        ("6'2", (2, 3, "two"), "6' two"),
        ("5’s", (0, 1, "five"), "five’s"),
        ("x2", (1, 2, " two"), "x two"),
        ("été", (0, 1, "é"), "été"),
    ],
)
def test_a_number_in_words_stays_apart_from_a_letter_beside_its_digits(source, edit, expected):
    assert parted(_said(source, edit), source).text == expected


def test_the_letter_before_a_number_is_told_from_the_article():
    assert letters_apart(_said("A380", (1, 4, " three eighty"))) == "A- three eighty"
    assert letters_apart(_said("A 3D", (2, 3, "three "))) == "A three D"
    assert letters_apart(_said("DNA2", (3, 4, " two"))) == "DNA two"


def test_chinese_characters_beside_digits_are_counted_and_scales_are_kept():
    cut = without_foreign_counters(MappedText.of("第3章, 9月 $5亿 你好"))
    assert cut.text.split() == ["3", ",", "9", "$5亿", "你好"]
    assert [(drop.start, drop.end, drop.reason) for drop in cut.drops] == [
        (0, 1, "unreadable"),
        (2, 3, "unreadable"),
        (6, 7, "unreadable"),
    ]


def test_a_long_run_of_chinese_characters_takes_linear_time():
    started = time.process_time()
    without_foreign_counters(MappedText.of("章" * 100_000))
    assert time.process_time() - started < 2
