from __future__ import annotations

import pytest
from text_backend.g2p.english.inflection import derive

LISTED = {
    "hop": "HH AA1 P",
    "hope": "HH OW1 P",
    "happy": "HH AE1 P IY0",
    "judge": "JH AH1 JH",
    "want": "W AA1 N T",
    "color": "K AH1 L ER0",
    "organize": "AO1 R G AH0 N AY2 Z",
    "organization": "AO2 R G AH0 N AH0 Z EY1 SH AH0 N",
    "travel": "T R AE1 V AH0 L",
    "tensor": "T EH1 N S ER0",
    "flow": "F L OW1",
    "cat": "K AE1 T",
}


def find(word: str) -> list[str]:
    return LISTED.get(word, "").split()


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("cats", "K AE1 T S"),
        ("judges", "JH AH1 JH IH0 Z"),
        ("flow's", "F L OW1 Z"),
        ("judge's", "JH AH1 JH IH0 Z"),
        ("cats'", "K AE1 T S"),
        ("hopped", "HH AA1 P T"),
        ("hoped", "HH OW1 P T"),
        ("wanted", "W AA1 N T IH0 D"),
        ("hopping", "HH AA1 P IH0 NG"),
        ("happiness", "HH AE1 P IY0 N AH0 S"),
        ("colour", "K AH1 L ER0"),
        ("colours", "K AH1 L ER0 Z"),
        ("organisation", "AO2 R G AH0 N AH0 Z EY1 SH AH0 N"),
        ("organised", "AO1 R G AH0 N AY2 Z D"),
        ("travelling", "T R AE1 V AH0 L IH0 NG"),
        ("unwanted", "AH0 N W AA1 N T IH0 D"),
        ("tensorflow", "T EH1 N S ER0 F L OW2"),
    ],
)
def test_builds_a_word_from_listed_ones(word, phones):
    assert derive(word, find) == phones.split()


@pytest.mark.parametrize("word", ["zyzzyx", "s", "ed", "'s", "ing", "'", "catx"])
def test_does_not_build_what_has_no_listed_part(word):
    assert derive(word, find) == []
