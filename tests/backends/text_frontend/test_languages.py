from __future__ import annotations

import pytest
from text_backend.languages import find_language
from text_backend.mapped import MappedText

ENGLISH = find_language("en-US")


def test_finds_letters_that_have_no_reading():
    assert ENGLISH.unreadable("Tokyo \u6771\u4eac\u6771 \u304b caf\u00e9 \u03b1") == ["\u6771", "\u4eac", "\u304b"]


def test_takes_letters_without_a_reading_away_and_keeps_words_apart():
    text = ENGLISH.without_unreadable(MappedText.of("a\u4f60b"))
    assert text.text == "a b"
    assert text.drops == ((1, 2, "unreadable"),)


def test_mandarin_and_other_languages_have_no_list_of_scripts():
    assert find_language("zh-CN").unreadable("\u6771") == []
    assert find_language("de-DE").unreadable("\u6771") == []


@pytest.mark.parametrize(("tag", "code"), [("zh-CN", "zh"), ("cmn-Hans", "zh"), ("en", "en"), ("pt-BR", "pt")])
def test_a_tag_selects_the_language(tag, code):
    assert find_language(tag).code == code


@pytest.mark.parametrize("tag", ["", "english please", "e", "../en"])
def test_refuses_what_is_no_language_tag(tag):
    with pytest.raises(ValueError, match="BCP 47"):
        find_language(tag)
