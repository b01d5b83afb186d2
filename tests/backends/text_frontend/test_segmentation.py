from __future__ import annotations

import random
import time

import pytest
import sentencex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_backend.segmentation import Break, segment

from voxrepo_contract.errors import Internal


def sentences(text: str) -> list[str]:
    return [text[s.start : s.end].strip() for s in segment(text, "en")]


@settings(deadline=None)  # the machine is shared
@given(
    st.text(
        st.sampled_from("aZ1.,!? \n\t\r\u00a0\u2028\u2029\u3000\"'()\u201c\u201d\u3002\U0001f604\u0301-*#"),
        max_size=300,
    )
)
@example("")
@example("   \n ")
@example("S\u3000.")  # made the sentence library panic before white space was made plain
def test_every_character_is_in_exactly_one_sentence(text):
    at = 0
    for sentence in segment(text, "en"):
        assert sentence.start == at
        assert sentence.end > at
        at = sentence.end
    assert at == len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith paid. He left.", ["Dr. Smith paid.", "He left."]),
        ("I met Mr. and Mrs. Jones of the U.S. Army at 5 p.m. on Jan. 3. Then I left.",
         ["I met Mr. and Mrs. Jones of the U.S. Army at 5 p.m. on Jan. 3.", "Then I left."]),
        ("Version 2.0.1 is out. It costs $5.3 billion.", ["Version 2.0.1 is out.", "It costs $5.3 billion."]),
        ("This is a test. Testing", ["This is a test.", "Testing"]),
        ("Yes?! No!! OK.", ["Yes?!", "No!!", "OK."]),
        ("1. Do this. 2. Do that.", ["1. Do this.", "2. Do that."]),
        ("apples\nbananas\ncherries", ["apples", "bananas", "cherries"]),
        ("See http://a.b/c.d?x=1. Thanks", ["See http://a.b/c.d?x=1.", "Thanks"]),
    ],
)  # fmt: skip
def test_finds_the_sentences(text, expected):
    assert sentences(text) == expected


def test_joins_lines_wrapped_to_a_width():
    text = "The quick brown fox jumps over the lazy dog and then it\nruns away. The end."
    assert len(sentences(text)) == 2


def test_a_long_list_item_is_not_joined_with_the_next():
    text = "Bring the large blue folder from the second shelf\nTell everybody about it"
    assert len(sentences(text)) == 2


def test_a_blank_line_ends_a_paragraph():
    assert [s.closes for s in segment("One. Two.\n \nThree.\nFour.", "en")] == [
        Break.SENTENCE,
        Break.PARAGRAPH,
        Break.SENTENCE,
        Break.SENTENCE,
    ]


def test_windows_line_ends_are_line_ends():
    assert [s.closes for s in segment("One.\r\n\r\nTwo.\r\nThree", "en")] == [
        Break.PARAGRAPH,
        Break.SENTENCE,
        Break.SENTENCE,
    ]


def test_a_sentence_cut_for_its_length_goes_on():
    spans = segment("word " * 1000 + "end.", "en")
    assert len(spans) > 1
    assert all(span.closes is Break.NONE for span in spans[:-1])
    assert spans[-1].closes is Break.SENTENCE


def _hostile_100_kb():
    chooser = random.Random(1)
    yield "".join(chooser.choice("aA.!? \"'()[]1") for _ in range(100_000))
    yield "".join(chooser.choice("aA.!? \u201c\u201d\u2019\u3002\n") for _ in range(100_000))
    for unit in ("(", ".", "a.", "\u201ca ", "'", "1. a ", "a!\n", "\n", " ", "Mr. ", "a" * 39 + " b\n"):
        yield (unit * 100_000)[:100_000]


def test_hostile_text_of_100_kb_takes_linear_time():
    for text in _hostile_100_kb():
        started = time.perf_counter()
        segment(text, "en")
        assert time.perf_counter() - started < 2.0, text[:20]


def test_a_panic_of_the_library_becomes_an_internal_error(monkeypatch):
    with pytest.raises(BaseException) as caught:  # the real panic, on text that never reaches the library like this
        sentencex.get_sentence_boundaries("en", "S\u3000.")
    panic = caught.value

    def panics(language, text):
        raise panic

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", panics)
    with pytest.raises(Internal, match="segmenter"):
        segment("Hello.", "en")
