from __future__ import annotations

import pytest
from text_backend.abbreviations import ABBREVIATIONS, Place, expand, of_place


@pytest.mark.parametrize(
    ("written", "following", "words"),
    [
        ("mr", "s", "mister"),
        ("Dr", "S", "doctor"),
        ("St", "J", "saint"),
        ("St", "j", None),
        ("no", "5", "number"),
        ("no", "w", None),
        ("Gen", "L", "general"),
        ("gen", "x", None),
        ("etc", "", "et cetera"),
        ("Blvd", "i", "boulevard"),
        ("mar", "1", None),
        ("Mar", "1", "march"),
        ("xyz", "A", None),
    ],
)
def test_the_place_decides_whether_it_is_an_abbreviation(written, following, words):
    assert expand(written, following) == words


def test_a_street_and_a_title_share_their_letters():
    assert ABBREVIATIONS["dr"] == {Place.TITLE: "doctor", Place.STREET: "drive"}
    assert of_place(Place.STREET)["st"] == "street"
    assert of_place(Place.NAME)["st"] == "saint"
