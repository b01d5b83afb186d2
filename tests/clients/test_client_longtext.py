"""Cutting of documents."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from voxrepo_client import InvalidRequest
from voxrepo_client.longtext import PARAGRAPH_PAUSE_MS, SENTENCE_PAUSE_MS, split_text


def _texts(text, limit):
    return [piece.text for piece in split_text(text, limit)]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab.!?,;  \n\t。，A1\u0301…\"'"), max_size=400), st.integers(1, 60))
def test_nothing_is_dropped_and_nothing_is_too_long(text, limit):
    pieces = split_text(text, limit)
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())
    assert all(0 < len(piece.text) <= limit for piece in pieces)
    assert all(piece.text == piece.text.strip() for piece in pieces)


def test_a_short_text_is_one_piece():
    assert _texts("One. Two.", 100) == ["One. Two."]


def test_a_blank_text_is_no_piece():
    assert split_text(" \n\t", 1) == []


def test_cuts_at_paragraphs_first():
    pieces = split_text("One. Two.\n\nThree. Four.\n \nFive.", 18)
    assert [(p.text, p.pause_ms) for p in pieces] == [
        ("One. Two.", PARAGRAPH_PAUSE_MS),
        ("Three. Four.", PARAGRAPH_PAUSE_MS),
        ("Five.", 0),
    ]


def test_cuts_at_sentences_then():
    pieces = split_text("First one here. Second one here. Third.", 33)
    assert [(p.text, p.pause_ms) for p in pieces] == [
        ("First one here. Second one here.", SENTENCE_PAUSE_MS),
        ("Third.", 0),
    ]


def test_cuts_chinese_sentences_without_spaces():
    assert _texts("今天天气很好。我们去公园吧！好的。", 10) == ["今天天气很好。", "我们去公园吧！好的。"]


def test_cuts_at_clauses_then_at_words_then_anywhere():
    assert _texts("one two, three four five", 16) == ["one two,", "three four five"]
    assert _texts("one two three four", 9) == ["one two", "three", "four"]
    assert _texts("abcdefghij", 4) == ["abcd", "efgh", "ij"]


def test_leaves_no_tiny_piece_for_an_early_boundary():
    title = "Title.\n\n" + "word " * 30
    assert len(_texts(title, 100)[0]) > 50


@pytest.mark.parametrize("text", ["We met Dr. Smith at noon today", "In the U.S. Senate on the floor"])
def test_does_not_take_an_abbreviation_for_the_end_of_a_sentence(text):
    assert all(piece.pause_ms == 0 for piece in split_text(text, 20))


def test_keeps_a_combining_mark_with_its_letter():
    assert _texts("abce\u0301fg", 4) == ["abc", "e\u0301fg"]


def test_cuts_a_book_quickly():
    text = ("All happy families are alike. " * 20 + "\n\n") * 1000
    assert sum(len(piece) for piece in _texts(text, 4096)) > 590_000


def test_refuses_a_limit_of_nothing():
    with pytest.raises(InvalidRequest, match="limit is 0"):
        split_text("a", 0)
