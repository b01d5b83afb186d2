from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_backend.mapped import Edit, MappedText


def assert_covered_once(text: MappedText, length: int) -> None:
    """Spans ascend, are equal or disjoint, and each source character is in one of them or in one drop."""
    spans = [span for span in zip(text.starts, text.ends, strict=True) if span[0] < span[1]]
    assert spans == sorted(spans)
    spoken, dropped = [0] * length, [0] * length
    for start, end in dict.fromkeys(spans):
        for at in range(start, end):
            spoken[at] += 1
    for start, end, _ in text.drops:
        for at in range(start, end):
            dropped[at] += 1
    assert max(spoken, default=0) <= 1
    assert max(dropped, default=0) <= 1
    assert all(a or b for a, b in zip(spoken, dropped, strict=True))


@st.composite
def edits_of(draw, length: int) -> list[Edit]:
    bounds = sorted(draw(st.lists(st.integers(0, length), max_size=8)))
    found = []
    for start, end in zip(bounds[::2], bounds[1::2], strict=False):
        text = draw(st.sampled_from(["", "x", "longer"])) if start < end else "y"
        found.append(Edit(start, end, text, "" if text else "markup"))
    return found


@settings(deadline=None)
@given(st.data(), st.text(max_size=30), st.integers(1, 4))
def test_any_edits_leave_every_source_character_covered_once(data, source, rounds):
    text = MappedText.of(source)
    for _ in range(rounds):
        text = text.edit(data.draw(edits_of(len(text))))
        assert len(text.text) == len(text.starts) == len(text.ends)
        assert_covered_once(text, len(source))


def test_a_replacement_stands_for_all_that_it_replaces():
    text = MappedText.of("pay $5 now").edit([Edit(4, 6, "five dollars")])
    assert text.text == "pay five dollars now"
    assert text.span(4, 16) == (4, 6)
    assert text.span(17, 20) == (7, 10)


def test_a_deletion_is_recorded_with_its_reason():
    text = MappedText.of("**a**").delete(re.compile(r"\*+"), "markup")
    assert text.text == "a"
    assert text.drops == ((0, 2, "markup"), (3, 5, "markup"))


def test_taking_away_part_of_a_replacement_drops_nothing_of_the_source():
    text = MappedText.of("$5").edit([Edit(0, 2, "five dollars")]).edit([Edit(4, 12, "", "silent")])
    assert text.text == "five"
    assert text.span(0, 4) == (0, 2)
    assert text.drops == ()


def test_a_slice_keeps_positions_in_the_source():
    assert MappedText.of("abcdef").slice(2, 4).span(0, 2) == (2, 4)


@pytest.mark.parametrize("edits", [[Edit(0, 2, "a"), Edit(1, 3, "b")], [Edit(2, 9, "a")], [Edit(0, 1, "")]])
def test_refuses_edits_that_make_no_sense(edits):
    with pytest.raises(ValueError, match="edit"):
        MappedText.of("abc").edit(edits)


def test_a_source_whose_every_character_is_taken_away_is_dropped_once():
    text = MappedText.of("x令").edit([Edit(1, 2, "reiwa")])
    gone = text.edit([Edit(1, 3, "", "unreadable"), Edit(3, 6, "", "unreadable")])
    assert [drop[:2] for drop in gone.drops] == [(1, 2)]


def test_punctuation_alone_does_not_stand_for_a_source():
    text = MappedText.of("㈡").edit([Edit(0, 1, "(二)")])
    assert [drop[:2] for drop in text.edit([Edit(1, 2, "", "unreadable")]).drops] == [(0, 1)]


def test_a_chain_of_overlapping_replacements_takes_linear_time():
    text = MappedText.of("½" * 20_000)
    text = text.edit([Edit(at, at + 1, "1/2") for at in range(20_000)])
    text = text.edit([Edit(at, at + 2, "21") for at in range(2, 59_997, 3)])
    assert set(text.starts[:-1]) == {0}
