from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_backend.languages import find_language

ENGLISH = find_language("en-US")


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Plain text, with \u00e9 and it\u2019s quotes.", "Plain text, with \u00e9 and it\u2019s quotes."),
        ("\uff28\uff45\uff4c\uff4c\uff4f \uff11\uff16\uff19", "Hello 169"),
        ("\U0001d573\U0001d58a\U0001d591\U0001d591\U0001d594", "Hello"),
        ("\ufb01sh", "fish"),
        ("\u0663\u0664", "34"),
        ("fiance\u0301", "fianc\u00e9"),
        ("soft\u00adhyphen zero\u200bwidth \ufeffbom", "softhyphen zerowidth bom"),
        ("bell\x07 tab\there", "bell tab here"),
        ("I \u2764\ufe0f it \U0001f468\u200d\U0001f469\u200d\U0001f467", "I  it"),
        ("1\ufe0f\u20e3 two", "1 two"),
        ("**bold** and *slanted* and `code`", "bold and slanted and code"),
        ("## Heading", "Heading"),
        ("* item", "item"),
        ("\u2022 item", "item"),
        ("--------", ""),
        ("a*b/c", "a*b/c"),
        ("5 * 3 = 15", "5 * 3 = 15"),
        ("snake_case_name", "snake_case_name"),
        ("wait... what", "wait... what"),
        ("\U0001f130 \U0001f103 \U0001f604", "A 2,"),
    ],
)
def test_normalises(written, spoken):
    assert ENGLISH.normalise(written) == spoken


@settings(deadline=None)  # the machine is shared
@given(st.text(max_size=200))
def test_keeps_every_letter_and_digit(text):
    def said(string: str) -> str:
        return "".join(c for c in unicodedata.normalize("NFKC", string) if c.isalpha() or c.isdecimal())

    # NFKC leaves digits of other scripts as they are
    expected = "".join(str(unicodedata.decimal(c, c)) for c in said(text))
    assert said(ENGLISH.normalise(text)) == expected


@pytest.mark.parametrize(
    "text", [".", "-", "...", "\u2014", "()", "\U0001f604", "\U0001f37a", "\U0001f96a", "***", "---", ":-)"]
)
def test_punctuation_and_emoji_alone_are_nothing_to_say(text):
    assert not ENGLISH.is_speakable(ENGLISH.normalise(text))


@pytest.mark.parametrize("text", ["a", "7", "\u00e9", "%", "\u20ac", "+", "\u00bd"])
def test_letters_digits_and_read_signs_are_something_to_say(text):
    assert ENGLISH.is_speakable(ENGLISH.normalise(text))


def test_finds_letters_that_have_no_reading():
    assert ENGLISH.unreadable("Tokyo \u6771\u4eac\u6771 \u304b caf\u00e9 \u03b1") == ["\u6771", "\u4eac", "\u304b"]


def test_other_languages_have_no_list_of_scripts():
    assert find_language("zh-CN").unreadable("\u6771") == []


@pytest.mark.parametrize("tag", ["", "english please", "e", "../en"])
def test_refuses_what_is_no_language_tag(tag):
    with pytest.raises(ValueError, match="BCP 47"):
        find_language(tag)


@pytest.mark.parametrize("unit", ["*", "* ", "`a", "_", "- ", "#", "-=", "*a", "\u0301", " ", "a*", "\u200d"])
def test_normalising_100_kb_takes_linear_time(unit):
    started = time.perf_counter()
    ENGLISH.normalise((unit * 100_000)[:100_000])
    assert time.perf_counter() - started < 1.0
