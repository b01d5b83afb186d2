from __future__ import annotations

import pytest
from text_backend.g2p.english.numbers import read_number


@pytest.mark.parametrize(
    ("whole", "fraction", "suffix", "words"),
    [
        ("0", "", "", "zero"),
        ("15", "", "", "fifteen"),
        ("42", "", "", "forty two"),
        ("305", "", "", "three hundred five"),
        ("1,234,567", "", "", "one million two hundred thirty four thousand five hundred sixty seven"),
        ("1999", "", "", "nineteen ninety nine"),
        ("1905", "", "", "nineteen oh five"),
        ("1900", "", "", "nineteen hundred"),
        ("2007", "", "", "two thousand seven"),
        ("2024", "", "", "twenty twenty four"),
        ("2,024", "", "", "two thousand twenty four"),
        ("3", ".14", "", "three point one four"),
        ("3", "", "rd", "third"),
        ("20", "", "th", "twentieth"),
        ("21", "", "st", "twenty first"),
        ("112", "", "th", "one hundred twelfth"),
        ("1980", "", "s", "nineteen eighties"),
        ("6", "", "s", "sixes"),
        ("2,000", "", "th", "two thousandth"),
        ("007", "", "", "zero zero seven"),
        ("12345678901234567890", "", "", "one two three four five six seven eight nine zero " * 2),
    ],
)
def test_reads_a_number(whole, fraction, suffix, words):
    assert read_number(whole, fraction, suffix) == words.split()


def test_the_largest_number_in_words_has_no_gap():
    assert read_number("9" * 18)[:4] == ["nine", "hundred", "ninety", "nine"]
    assert read_number("1" + "0" * 15) == ["one", "quadrillion"]
