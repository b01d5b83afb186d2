"""On strings that no rule was written for: every character ends as sound, as a pause, or in the count of drops."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .voices import mandarin_front_end

pytest.importorskip("pypinyin")
pytest.importorskip("wetext")

from voxrepo_contract.errors import InvalidArgument

FRONT_END = mandarin_front_end()
_FRAGMENTS = [
    "包裹在Ｃ区１号柜", "１６９号格", "人口1443497378人", "UPS电源", "今天是2025-09-28", "$200,000", "$5.3 billion",
    "$100 after 9:30PM", "40–60°C", "报警电话110、120", "version 2.0.1", "**重点**", "- 列表", "😄", "🍺", "\\n", "5ml",
    "＜10mmHg", "的IPTH、CKD", "a*b/c", "ä ö ü ß", "Straße", "(1)(2)(3)", "https://a.cn/x?y=1", "me@x.org", "京A12345",
    "H₂O", "x²", "½", "Ⅷ", "①", "㎡", "№5", "привет", "こんにちは", "안녕", "مرحبا", "α+β", "→", "©", "™", "♪", "※",
    "\u200b", "\u202e", "\ufeff", "\u00ad", "\x07", "\ue123", "𠮷", "骉", "龘", "〇", "々", "…", "——", "「", "」", "～",
    "~", "`code`", "<b>", "&amp;", "|", "1/3", "3:2", "-5", "+", "=", "%", "‰", "¥99", "007", "1e5", "第2", "一", "不",
    "儿", "Hello", "iPhone15", "WiFi", "GPT-4", "v2", "C++", "C#", "\u0301", "é", "\u3000", "\t", "\n", " ", "，", "。",
    "！", "？",
]  # fmt: skip
_SPACING = ("P", "Z")
_PAUSES = "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85|~\uff5e`"


def _strings() -> list[str]:
    chooser = random.Random(20_260_504)
    return ["".join(chooser.choices(_FRAGMENTS, k=chooser.randint(3, 14))) for _ in range(100)]


def unaccounted(text: str) -> list[str]:
    """Characters that are neither under a symbol, nor dropped, nor punctuation, white space or a pause."""
    try:
        utterance = FRONT_END.run(text, 1.0, "")
    except InvalidArgument as refused:
        assert "nothing speakable" in str(refused) or "is empty or blank" in str(refused) or "NUL" in str(refused)
        return []
    accounted: set[int] = set()
    for start, end in utterance.symbol_spans:
        accounted.update(range(start, end))
    for start, end, _ in utterance.drops:
        dropped = set(range(start, end))
        accounted |= dropped
    assert sum(utterance.dropped.values()) == sum(end - start for start, end, _ in utterance.drops)
    breaks = text.replace("\\n", "\n\n")  # an escaped line end is one, which is a pause
    return [
        f"{character!r} at {at}"
        for at, character in enumerate(breaks)
        if at not in accounted and unicodedata.category(character)[0] not in _SPACING and character not in _PAUSES
    ]


@pytest.mark.parametrize("text", _strings())
def test_no_character_of_an_unseen_string_is_lost_uncounted(text):
    assert unaccounted(text) == []


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=40))
def test_no_character_of_any_string_is_lost_uncounted(text):
    assert unaccounted(text) == []
