from __future__ import annotations

import pytest
from text_backend.g2p.english.homographs import choose


@pytest.mark.parametrize(
    ("before", "word", "after", "sound"),
    [
        ("", "close", "the", "K L OW1 Z"),
        ("very", "close", "to", "K L OW1 S"),
        ("", "live", "music", "L AY1 V"),
        ("i", "live", "here", "L IH1 V"),
        ("the", "bass", "guitar", "B EY1 S"),
        ("sea", "bass", "", "B AE1 S"),
        ("a", "minute", "detail", "M AY0 N UW1 T"),
        ("the", "lead", "pipe", "L EH1 D"),
        ("", "tear", "it", "T EH1 R"),
        ("a", "tear", "", "T IH1 R"),
        ("lee", "lives", "at", "L IH1 V Z"),
        ("our", "lives", "in", "L AY1 V Z"),
        ("he", "wound", "the", "W AW1 N D"),
        ("the", "wound", "healed", "W UW1 N D"),
    ],
)
def test_the_neighbours_decide(before, word, after, sound):
    assert choose(word, [["X"]], before, after) == sound.split()


def test_capitals_beside_an_ampersand_are_letters(read):
    assert read("AT&T") == "ˌeɪtˈiːʲ ænd tˈiː"


def test_a_hyphen_between_numbers_does_not_join_them(read):
    assert "fˈaɪv zˈiəɹoʊ" in read("555-0142")
