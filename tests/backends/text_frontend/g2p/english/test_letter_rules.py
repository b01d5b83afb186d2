from __future__ import annotations

import time

import pytest
from text_backend.g2p.english.letter_rules import phones_by_rule, read_roughly


@pytest.mark.parametrize(
    ("letters", "phones"),
    [
        ("night", "N AY T"),
        ("made", "M EY D"),
        ("street", "S T R IY T"),
        ("strength", "S T R EH NG TH"),
    ],
)
def test_the_rules_know_common_patterns(letters, phones):
    assert " ".join(phones_by_rule(letters)) == phones


def test_only_the_first_full_vowel_is_stressed():
    assert read_roughly("blorpation").count("ˈ") == 1


def test_a_run_of_letters_takes_linear_time():
    start_s = time.process_time()
    assert len(read_roughly("strength" * 12_500)) > 50_000
    assert time.process_time() - start_s < 1.0
