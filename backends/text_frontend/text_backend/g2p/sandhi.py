"""Tones as they are spoken: 一, 不, third tones in a row, and the neutral tone of doubled words."""

from __future__ import annotations

from collections.abc import Sequence

_NUMERALS = frozenset("零〇一二两三四五六七八九十点")
_AFTER_ORDINAL = frozenset("第初周零〇一二三四五六七八九十点幺")
_READ_AS_LABEL = frozenset("月号日楼路班级区栋线")
# 一月, 一号, 一楼: which one, not how many; the tone stays
_LABEL_EXCEPTIONS = frozenset({"一日三餐", "一日不见", "一路", "一级棒", "一线"})
_SAME_BOTH_SIDES_NEUTRAL = frozenset("看听说问想试走等玩坐读写尝谈聊学练算查找笑跑跳歇睡猜摸闻数")


def apply(characters: str, tones: Sequence[int], words: Sequence[int]) -> list[int]:
    """Tones after sandhi.

    Args:
        characters: a run without a pause in it.
        tones: of each character as the dictionary has them, 5 is neutral.
        words: number of the word that each character belongs to, ascending.

    Returns:
        One tone per character.
    """
    spoken = list(tones)
    if "一" in characters:
        _yi(characters, spoken, words)
    if "不" in characters:
        _bu(characters, spoken)
    if 3 in spoken:
        _third_tones(spoken, words)
    return spoken


def _yi(characters: str, tones: list[int], words: Sequence[int]) -> None:
    for at, character in enumerate(characters):
        if character != "一":
            continue
        before = characters[at - 1] if at else ""
        after = characters[at + 1] if at + 1 < len(characters) else ""
        if before and before == after and before in _SAME_BOTH_SIDES_NEUTRAL:
            tones[at] = 5
        elif (
            not after or before in _AFTER_ORDINAL or (after in _NUMERALS and after != "点") or _is_label(characters, at)
        ) or (after == "点" and at + 2 < len(characters) and characters[at + 2] in _NUMERALS):
            tones[at] = 1
        elif words[at] != words[at + 1] and at and words[at - 1] == words[at]:
            tones[at] = 1  # the end of a word: 统一, 万一, 唯一
        else:
            tones[at] = 2 if _base(tones, at + 1, characters) == 4 else 4


def _is_label(characters: str, at: int) -> bool:
    after = characters[at + 1]
    if after not in _READ_AS_LABEL:
        return False
    return not any(characters.startswith(word, at) for word in _LABEL_EXCEPTIONS)


def _base(tones: Sequence[int], at: int, characters: str) -> int:
    # 个 is often written with a neutral tone, but 一 before it is spoken as before a fourth
    return 4 if characters[at] == "个" else tones[at]


def _bu(characters: str, tones: list[int]) -> None:
    for at, character in enumerate(characters):
        if character != "不":
            continue
        before = characters[at - 1] if at else ""
        after = characters[at + 1] if at + 1 < len(characters) else ""
        if before and before == after and tones[at + 1] != 5:
            tones[at] = 5  # 好不好
        elif after:
            tones[at] = 2 if tones[at + 1] == 4 else 4
        else:
            tones[at] = 4


def _third_tones(tones: list[int], words: Sequence[int]) -> None:
    at = 0
    while at < len(tones):
        if tones[at] != 3:
            at += 1
            continue
        end = at
        while end < len(tones) and tones[end] == 3:
            end += 1
        if end - at > 1:
            _third_tone_run(tones, words, at, end)
        at = end


def _third_tone_run(tones: list[int], words: Sequence[int], start: int, end: int) -> None:
    """In feet of two or three syllables that follow the words; the last of a foot keeps its tone."""
    at = start
    while at < end:
        size = _foot(words, at, end)
        if size == 3 and words[at] != words[at + 1] and words[at + 1] == words[at + 2]:
            tones[at + 1] = 2  # 很 + 勇敢: 3 2 3
        else:
            for index in range(at, at + size - 1):
                tones[index] = 2
        at += size


def _foot(words: Sequence[int], at: int, end: int) -> int:
    left = end - at
    if left <= 3:
        return left
    word_length = 1
    while at + word_length < end and words[at + word_length] == words[at]:
        word_length += 1
    return word_length if 2 <= word_length <= 3 and left - word_length != 1 else 2
