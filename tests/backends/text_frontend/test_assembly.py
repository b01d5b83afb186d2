from __future__ import annotations

from text_backend.assembly import assemble
from text_backend.espeak import Clause
from text_backend.splitting import Cut


def text_of(*clauses: Clause) -> str:
    return "".join(assemble([clauses]).symbols)


def test_a_blank_follows_pausing_marks_even_at_the_end():
    assert text_of(Clause("a", ",", False), Clause("b", ";", False)) == "a, b; "


def test_the_full_stop_of_an_abbreviation_goes_inside_a_sentence():
    assert text_of(Clause("d", ".", True), Clause("s", ".", True)) == "d s."


def test_a_question_inside_a_sentence_keeps_its_mark():
    assert text_of(Clause("w", "?", True), Clause("l", ".", True)) == "w? l."


def test_clauses_without_a_terminator_stay_apart():
    assert text_of(Clause("a", "", False), Clause("b", "", True)) == "a b"


def test_empty_clauses_at_the_end_are_left_out():
    assert text_of(Clause("a", ".", True), Clause("", "", True)) == "a."


def test_flags_of_a_language_switch_are_removed():
    assert text_of(Clause("(hi)a(en-us)b", "", True)) == "ab"


def test_symbols_are_single_code_points_after_decomposition():
    assert assemble([[Clause("\u00e7\u0250\u0303", "", True)]]).symbols == ["c", "\u0327", "\u0250", "\u0303"]


def test_does_not_cut_marks_from_their_symbol():
    cuts = assemble([[Clause("\u02c8a\u02d0b\u0303 c", "", True)]]).cuts
    assert cuts == [Cut.NEVER, Cut.NEVER, Cut.HARD, Cut.NEVER, Cut.HARD, Cut.WORD, Cut.CLAUSE]


def test_punctuation_alone_has_no_sound():
    assert not assemble([[Clause("", "", True)]]).has_sound
    assert not assemble([[Clause(" ", "!", True)]]).has_sound
