from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_backend.espeak_limits import pieces

_NOT_A_SOUND = re.compile("[\u02c8\u02cc ]|\\([^)]*\\)")


def spoken(espeak, text: str) -> int:
    return sum(len(_NOT_A_SOUND.sub("", c.phonemes)) for clauses in espeak.phonemize(pieces(text)) for c in clauses)


def test_an_ordinary_sentence_passes_unchanged():
    text = "In 1912, the R.M.S. Titanic, thought to be unsinkable, left for New York; it never got there (as we know)."
    assert pieces(text) == [text]


@settings(deadline=None)  # the machine is shared
@given(st.text(st.sampled_from("aeXz19.,;'-/ $\u00e9\u0416"), max_size=3000))
def test_nothing_but_blanks_is_added_or_lost(text):
    assert "".join("".join(pieces(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    "unit",
    ["w", "x", "7", "\u03a9", "\u0436", "\u00df", "hgtr", "1a", "A.", "w-", "w/", ".7", "$", "\u00a9", "7.", "w.w@",
     "2/3 ", "7 ", "word ", "word, ", "internationalisation ", "BBC ", "999999999 ", "https://www.example.com/path "],
)  # fmt: skip
def test_espeak_reads_the_last_repetition_as_it_reads_the_first(espeak, unit):
    few, many = 8, 4096 // len(unit)
    per_unit = spoken(espeak, unit * few) / few
    # up to 8 % less: words that espeak runs together ("seven hundred" said once for several digits)
    assert spoken(espeak, unit * many) >= 0.92 * per_unit * many


@pytest.mark.parametrize("unit", ["..a", "A.", ".\u00e9", ".a.b", "a..", "a.\uac00"])
def test_letters_with_full_stops_do_not_crash_espeak(espeak, unit):
    before = espeak.pid
    assert spoken(espeak, (unit * 4096)[:4096]) > 1000
    assert espeak.pid == before
