from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_backend.languages import find_language
from text_backend.mapped import MappedText
from text_backend.normalisation import pipeline
from text_backend.normalisation.rules.base import language_at
from text_backend.normalisation.rules.markdown import strip_markup
from text_backend.normalisation.unicode import clean

from tests.timing import assert_linear

from .test_mapped import assert_covered_once

ENGLISH = find_language("en-US")
FRAGMENTS = st.text(
    st.sampled_from(
        "aZv1290.,:;!?-+*/=%$#@&~^_|<>()[]{}`'\"\\ \n\t你好一不元年月日第点号，"
        "。：！～％＄Ａ１\u4e00\u3000é\u0301ß㎡½²①Ⅳ\u200b\u202e\ufe0f"
        "\U0001f604\u2603°℃→≥±×α\ue000"
    ),
    max_size=60,
)


def plain(text: str) -> str:
    """Characters and layout only, as a voice without rules for numbers says it."""
    return strip_markup(clean(MappedText.of(text)), "en").text.strip()


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
        ("3\u00bd and \u2163", "3 1/2 and 4"),
        ("C:\\new\\table", "C:\\new\\table"),
    ],
)
def test_brings_characters_and_layout_to_what_is_spoken(written, spoken):
    assert plain(written) == spoken


@settings(deadline=None)  # the machine is shared
@given(st.text(max_size=200))
def test_characters_keep_every_letter_and_digit(text):
    def said(string: str) -> str:
        composed = unicodedata.normalize("NFKC", string)
        return "".join(c for c in composed if c.isalpha() or c.isdecimal())

    roman = {chr(0x2160 + n): str(n + 1) for n in range(12)} | {chr(0x2170 + n): str(n + 1) for n in range(12)}
    source = "".join(roman.get(c, c) for c in text if c not in "\u2116\u2121\u3164")
    kept = clean(MappedText.of(source)).text
    # NFKC leaves digits of other scripts as they are
    assert said(kept) == "".join(str(unicodedata.decimal(c, c)) for c in said(source))


@settings(deadline=None, max_examples=300)
@given(st.one_of(FRAGMENTS, st.text(max_size=60)), st.sampled_from(["en", "zh"]))
@example("**加粗**和`代码`", "zh")
@example("$5-10 (1/2) ~3", "en")
def test_every_source_character_is_spoken_or_counted_after_all_steps(text, language):
    mapped = pipeline.prepare(MappedText.of(text), language, "skip")
    mapped = pipeline.normalise_text(mapped, language)
    mapped = pipeline.normalise_sentence(mapped, language)
    assert_covered_once(mapped, len(text))


@pytest.mark.parametrize(
    ("text", "at", "language"),
    [
        ("The price is 100元 for 2 people.", 13, "zh"),
        ("The price is 100元 for 2 people.", 23, "en"),
        ("I have 3 cats.", 7, "en"),
        ("UPS有3台", 4, "zh"),
        ("新款iPhone 15", 9, "zh"),
        ("GDP 5", 4, "zh"),
        ("我说 I have 2 books and 你", 12, "en"),
        ("7", 0, "zh"),
    ],
)
def test_finds_the_language_around_a_number(text, at, language):
    end = at + 1
    while end < len(text) and text[end].isdigit() and text[end].isascii():
        end += 1
    assert language_at(text, at, end, "zh") == language
    assert language_at(text, at, end, "en") == "en"


@pytest.mark.parametrize(
    "text", [".", "-", "...", "\u2014", "()", "\U0001f604", "\U0001f37a", "\U0001f96a", "***", "---", ":-)"]
)
def test_punctuation_and_emoji_alone_are_nothing_to_say(text):
    assert not ENGLISH.is_speakable(plain(text))


@pytest.mark.parametrize("text", ["a", "7", "\u00e9", "%", "\u20ac", "+", "\u00bd"])
def test_letters_digits_and_read_signs_are_something_to_say(text):
    assert ENGLISH.is_speakable(plain(text))


HOSTILE_UNITS = [
    "*", "* ", "`a", "_", "- ", "#", "-=", "*a", "\u0301", " ", "a*", "\u200d", "[a](b", "![", "&amp", "<b ", "|a",
    "\\n", "1-", "1,", "1/", "1:", "1.", "$1", "http://a.", "a@a.", "v1.", "1e", "H2",
    "Jan ", "1 ", "+1 (", "第1", "你1",
    "No.", "~~a", "X", "1x", "-1-", "00-", "\U0001f468\u200d",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE_UNITS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_normalising_100_kb_takes_linear_time(unit, language):
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        started = time.process_time()
        pipeline.normalise_text(pipeline.prepare(MappedText.of(text), language, "skip"), language)
        return time.process_time() - started

    assert_linear(seconds, 25_000, 100_000)
