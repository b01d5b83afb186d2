from __future__ import annotations

import gzip

import pytest
from text_backend.g2p.english.dictionary import FILE, Dictionary


def test_finds_all_pronunciations_in_their_order(dictionary):
    assert dictionary.find("live") == [["L", "AY1", "V"], ["L", "IH1", "V"]]


def test_a_word_that_begins_another_is_told_from_it(dictionary):
    assert dictionary.find("a") == [["AH0"], ["EY1"]]
    assert dictionary.find("zyzzyv") == []


@pytest.mark.parametrize("word", ["'bout", "aaa", "zywicki"])
def test_finds_the_first_and_the_last_word(dictionary, word):
    assert dictionary.find(word)


def test_every_line_of_the_shipped_table_is_found():
    table = gzip.decompress(FILE.read_bytes())
    lines = table.decode("utf-8").splitlines()
    assert len(lines) > 130_000
    assert lines == sorted(lines, key=lambda line: line.split("\t")[0].encode())
    dictionary = Dictionary(table)
    for line in lines[::997]:
        word, phones = line.split("\t")
        assert phones.split() in dictionary.find(word)


def test_an_empty_table_has_no_words():
    assert Dictionary(b"").find("a") == []


def test_every_pronunciation_is_found_wherever_a_word_stands_in_the_table():
    numbers = {f"w{number:04}": number % 4 + 1 for number in range(400)}
    table = "".join(f"{word}\tP{place}\n" for word, count in numbers.items() for place in range(count))
    dictionary = Dictionary(table.encode())
    for word, count in numbers.items():
        assert dictionary.find(word) == [[f"P{place}"] for place in range(count)]
    assert dictionary.find("w0000a") == dictionary.find("a") == dictionary.find("x") == dictionary.find("w") == []
