"""English abbreviations with the places where they hold: one table for the rules and for the phonemizer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from text_backend.data import table


class Place(Enum):
    """Where an abbreviation stands for its words; see the head of ``data/abbreviations.tsv``."""

    TITLE = "title"
    NAME = "name"
    NUMBER = "number"
    STREET = "street"
    WORD = "word"
    END = "end"
    MONTH = "month"


def _read() -> dict[str, dict[Place, str]]:
    found: dict[str, dict[Place, str]] = {}
    for abbreviation, words, place in table("abbreviations"):
        found.setdefault(abbreviation, {})[Place(place)] = words
    return found


ABBREVIATIONS: Mapping[str, Mapping[Place, str]] = _read()
"""By the abbreviation in lower case, without its full stop."""


def of_place(place: Place) -> dict[str, str]:
    """Abbreviations that hold in ``place``, and their words."""
    return {short: places[place] for short, places in ABBREVIATIONS.items() if place in places}


def expand(written: str, following: str) -> str | None:
    """Words of an abbreviation with a full stop in running text, after the rules.

    Args:
        written: without its full stop.
        following: the next character that is not a blank, empty at the end.

    Returns:
        ``None`` if it is not one, or not in this place.
    """
    places = ABBREVIATIONS.get(written.lower())
    if places is None:
        return None
    capital = written[0].isupper() and following.isupper()
    for place, words in places.items():
        if place is Place.NAME and not capital:
            continue
        if place is Place.NUMBER and not (following.isdigit() or capital):
            continue
        if place is Place.STREET and (len(places) > 1 or following.isdigit()):
            continue  # beside a title or a name only the rules can tell a street
        if written.lower() == "mar" and not (capital or (written[0].isupper() and following.isdigit())):
            continue
        return words
    return None
