"""Characters of several readings: our tables against plain pypinyin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from . import voices  # isort: skip (puts the backend on the path)

pypinyin = pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from text_backend.g2p.pinyin import read_han  # noqa: E402

assert voices.BACKEND.is_dir()
FILE = Path(__file__).with_name("polyphones.yaml")
_MARKED = re.compile(r"(.)\{([a-z]+[1-5])\}")
SENTENCES = yaml.safe_load(FILE.read_text(encoding="utf-8"))["sentences"]


def expected(sentence: str) -> dict[int, str]:
    """Reading of each marked character, by its place in the text without the marks."""
    found: dict[int, str] = {}
    extra = 0
    for match in _MARKED.finditer(sentence):
        found[match.start() - extra] = match.group(2)
        extra += len(match.group()) - 1
    return found


def wrong(sentence: str, readings: list[str]) -> int:
    return sum(readings[at] != pinyin for at, pinyin in expected(sentence).items())


def ours(sentence: str) -> list[str]:
    return [reading.pinyin for reading in read_han(_MARKED.sub(r"\1", sentence))]


def plain(sentence: str) -> list[str]:
    style = pypinyin.Style.TONE3
    found: list[str] = pypinyin.lazy_pinyin(_MARKED.sub(r"\1", sentence), style=style, neutral_tone_with_five=True)
    return found


def test_there_are_enough_sentences():
    assert len(SENTENCES) >= 200
    assert all(expected(sentence) for sentence in SENTENCES)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_reads_the_sentence(sentence):
    readings = ours(sentence)
    assert {at: readings[at] for at in expected(sentence)} == expected(sentence)


def test_makes_less_than_half_the_mistakes_of_plain_pypinyin():
    mistakes = sum(wrong(sentence, ours(sentence)) for sentence in SENTENCES)
    mistakes_plain = sum(wrong(sentence, plain(sentence)) for sentence in SENTENCES)
    assert mistakes_plain > 20
    assert mistakes * 2 < mistakes_plain
