"""On strings that no rule was written for: every character ends as sound, as a pause, or in the count of drops.

Strict: of a mark too it must be known what became of it. It is in ``mark_spans`` (a pause, or part of a word; see
:mod:`text_backend.g2p.marks`), in ``drops``, or under a symbol. Only white space needs no account.
For English, whose phonemizer does not tell what it read, a character counts as sound if the phonemizer says it alone.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .voices import english_front_end, mandarin_front_end  # isort: skip (puts the backend on the path)

from text_backend.g2p.clauses import ClauseG2P
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.mapped import MappedText

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from voxrepo_contract.errors import InvalidArgument


class _Recorder:
    """Reads English, and remembers what it was given."""

    def __init__(self) -> None:
        self._g2p = ClauseG2P(EnglishPhonemizer())
        self.sentences: list[MappedText] = []

    def convert(self, sentences: Any, observe: Any = None) -> Any:
        self.sentences = list(sentences)
        return self._g2p.convert(sentences, observe)

    def parse_pronunciation(self, written: str) -> list[str]:
        return self._g2p.parse_pronunciation(written)


RECORDER = _Recorder()
PHONEMIZER = EnglishPhonemizer()
FRONT_ENDS = {"zh": mandarin_front_end(), "en": english_front_end(RECORDER)}
_FRAGMENTS = [
    "包裹在Ｃ区１号柜", "１６９号格", "人口1443497378人", "UPS电源", "今天是2025-09-28", "$200,000", "$5.3 billion",
    "$100 after 9:30PM", "40–60°C", "报警电话110、120", "version 2.0.1", "**重点**", "- 列表", "😄", "🍺", "\\n", "5ml",
    "＜10mmHg", "的IPTH、CKD", "a*b/c", "ä ö ü ß", "Straße", "(1)(2)(3)", "https://a.cn/x?y=1", "me@x.org", "京A12345",
    "H₂O", "x²", "½", "Ⅷ", "①", "㎡", "№5", "привет", "こんにちは", "안녕", "مرحبا", "α+β", "→", "©", "™", "♪", "※",
    "\u200b", "\u202e", "\ufeff", "\u00ad", "\x07", "\ue123", "𠮷", "骉", "龘", "〇", "々", "…", "——", "「", "」", "～",
    "~", "`code`", "<b>", "&amp;", "|", "1/3", "3:2", "-5", "+", "=", "%", "‰", "¥99", "007", "1e5", "第2", "一", "不",
    "儿", "Hello", "iPhone15", "WiFi", "GPT-4", "v2", "C++", "C#", "\u0301", "é", "\u3000", "\t", "\n", " ", "，", "。",
    "！", "？", "“你好”", "(he said)", "well-known", "it's", "a_b", "# * / \\ _", " - ", "--", "a---b", "[x]", "·", "•",
    "e.g. this", "Dr. Who", "~wait~", "«quoi»", "¿qué?", "'tis", "dogs' ", "⅓", "'", "\"",
]  # fmt: skip


def _strings() -> list[str]:
    chooser = random.Random(20_260_504)
    return ["".join(chooser.choices(_FRAGMENTS, k=chooser.randint(3, 14))) for _ in range(100)]


@lru_cache(maxsize=8192)
def _is_said(character: str) -> bool:
    if character.isascii() and character.isalnum():
        return True
    return any(c.isalpha() for clause in PHONEMIZER.phonemize([character])[0] for c in clause.phonemes)


def unaccounted(text: str, language: str, normalise: bool = True) -> list[str]:
    """Characters of which nobody can say what became of them."""
    RECORDER.sentences = []
    try:
        utterance = FRONT_ENDS[language].run(text, 1.0, "", normalise=normalise)
    except InvalidArgument as refused:
        assert "nothing speakable" in str(refused) or "is empty or blank" in str(refused) or "NUL" in str(refused)
        return []
    drops = [drop[:2] for drop in utterance.drops]
    assert sum(utterance.dropped.values()) == sum(end - start for start, end in drops)
    heard = [*utterance.symbol_spans]
    for sentence in RECORDER.sentences:
        heard += [sentence.span(at, at + 1) for at, c in enumerate(sentence.text) if _is_said(c)]
    accounted: set[int] = set()
    for start, end in (*drops, *utterance.mark_spans, *heard):
        accounted.update(range(start, end))
    return [
        f"{character!r} at {at}" for at, character in enumerate(text) if at not in accounted and not character.isspace()
    ]


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("text", _strings())
def test_no_character_of_an_unseen_string_is_lost_uncounted(text, language, normalise):
    assert unaccounted(text, language, normalise) == []


@pytest.mark.parametrize("language", ["zh", "en"])
@settings(deadline=None, max_examples=200)
@given(
    st.one_of(
        st.text(max_size=40), st.text(st.sampled_from("a1Zé你，。“”'\"-–—_ .:;!?()[]~|`*#/\\&%\n½·"), max_size=30)
    )
)
def test_no_character_of_any_string_is_lost_uncounted(language, text):
    assert unaccounted(text, language) == []


@pytest.mark.parametrize(
    ("language", "text", "dropped"),
    [
        ("zh", "他说：“你好”，走了。", {}),
        ("zh", "“你”好", {"punctuation": 2}),
        ("zh", "用Wi-Fi吧", {}),
        ("en", "It's a well-known fact.", {}),
        ("en", 'He said, "Go."', {}),
        ("en", 'The "best" one', {"punctuation": 2}),
        ("en", "Wait~ what", {"punctuation": 1}),
        ("en", "Hello.\n# * / \\ _", {"symbol": 4, "markup": 2}),
        ("en", "one === two", {"markup": 3}),
        ("en", "one---two", {}),
    ],
)
def test_marks_are_pauses_or_counted(language, text, dropped):
    assert FRONT_ENDS[language].run(text, 1.0, "").dropped == dropped


def test_every_mark_of_a_pause_belongs_to_it():
    assert FRONT_ENDS["zh"].run("他说：“你好”，走了。", 1.0, "").mark_spans == ((2, 4), (6, 8), (10, 11))


@pytest.mark.parametrize("front_end", [english_front_end(), mandarin_front_end()])
@pytest.mark.parametrize("scheme", ["https://", "ftp://"])
def test_the_scheme_of_an_address_is_not_said_and_counted(front_end: Any, scheme: str) -> None:
    with_scheme, without = (
        front_end.run(f"See {scheme}www.x.com now", 1.0, ""),
        front_end.run("See www.x.com now", 1.0, ""),
    )
    assert list(with_scheme.phoneme_ids) == list(without.phoneme_ids)
    assert with_scheme.dropped == {"markup": len(scheme)}
