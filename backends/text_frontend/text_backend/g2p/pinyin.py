"""Readings of Chinese characters: pypinyin's dictionaries, our own words, and rules for what words cannot tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from text_backend.data import table
from text_backend.normalisation import grammars

_YI_BU = {"一": "yi1", "不": "bu4"}
_NOT_R_COLOURED_BEFORE = "女婴幼孤健胎男少宠妻育低哺混混弃产小孩乳侄患爱娇妖"
_NOT_R_COLOURED_AFTER = "子童女歌科媳孙郎戏茶"
_LONGEST_WORD = 8


class Reading(NamedTuple):
    """One character.

    Attributes:
        character: as written.
        pinyin: syllable with tone digit; empty if the dictionaries do not have the character, ``r`` for a 儿 that
            colours the syllable before it.
        word: number of the word that it belongs to.
    """

    character: str
    pinyin: str
    word: int


def read_han(characters: str, before: str = "", after: str = "") -> list[Reading]:
    """Readings of a run of Chinese characters, before tone sandhi.

    Args:
        characters: the run.
        before: what stands in front of it in the sentence, for rules that look there.
        after: what follows.
    """
    pinyins: list[str] = []
    numbers: list[int] = []
    fixed: list[bool] = []
    number = 0
    for word, own in _cut(_simplified(characters)):
        if not own and len(word) == 1:
            pinyins += _dictionary(word)
            numbers.append(number)
            fixed.append(False)
            number += 1
            continue
        pinyins += own.split() if own else _dictionary(word)
        # 小老虎 is 小 and 老虎 for the tones
        head = 1 if len(word) == 3 and _is_one_and_two(word) else 0
        numbers += [number] * head + [number + head] * (len(word) - head)
        number += 1 + head
        fixed += [bool(own)] * len(word)
    if "一" in characters or "不" in characters:
        pinyins = [_YI_BU.get(character, p) for character, p in zip(characters, pinyins, strict=True)]
    _apply_rules(characters, before, after, pinyins, fixed)
    if "儿" in characters or "兒" in characters:
        _colour(characters, pinyins)
    return list(map(Reading, characters, pinyins, numbers))


@lru_cache(maxsize=1)
def _library() -> tuple[Any, Any, Any]:
    # 55 MB of dictionaries: only for voices that read Chinese
    from pypinyin import Style, lazy_pinyin
    from pypinyin.seg.mmseg import seg

    return lazy_pinyin, Style.TONE3, seg


@lru_cache(maxsize=1)
def _own_words() -> dict[str, str]:
    return {row[0]: row[1] for row in table("polyphone_words")}


@lru_cache(maxsize=1)
def _own_lengths() -> dict[str, tuple[int, ...]]:
    lengths: dict[str, set[int]] = {}
    for word in _own_words():
        lengths.setdefault(word[0], set()).add(len(word))
    return {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()}


@lru_cache(maxsize=1)
def _own_first() -> re.Pattern[str]:
    return re.compile("[" + "".join(map(re.escape, _own_lengths())) + "]")


def _cut(characters: str) -> list[tuple[str, str]]:
    """Words with our own readings, the stretches between them cut by pypinyin's dictionary."""
    words: list[tuple[str, str]] = []
    own, lengths = _own_words(), _own_lengths()
    rest = 0
    segment = _library()[2]
    for match in _own_first().finditer(characters):
        at = match.start()
        if at < rest:
            continue
        for length in lengths[match.group()]:
            word = characters[at : at + length]
            if word in own:
                if rest < at:
                    words += [(part, "") for part in segment.cut(characters[rest:at])]
                words.append((word, own[word]))
                rest = at + length
                break
    if rest < len(characters):
        words += [(part, "") for part in segment.cut(characters[rest:])]
    return words


@lru_cache(maxsize=32768)
def _dictionary(word: str) -> Sequence[str]:
    lazy_pinyin, style, _ = _library()
    found: list[str] = lazy_pinyin(
        [word], style=style, neutral_tone_with_five=True, errors=lambda text: [""] * len(text)
    )
    if len(found) != len(word):
        return [_dictionary(character)[0] if len(word) > 1 else "" for character in word]
    return [pinyin if pinyin[:1].isascii() or pinyin[:1] in "üê" else "" for pinyin in found]


def needs_context(characters: str) -> bool:
    """Whether what stands around ``characters`` may change their readings."""
    return not _rules().keys().isdisjoint(characters)


@dataclass(frozen=True)
class _Rule:
    before: re.Pattern[str] | None
    after: re.Pattern[str] | None
    pinyin: str


@lru_cache(maxsize=1)
def _rules() -> dict[str, list[_Rule]]:
    rules: dict[str, list[_Rule]] = {}
    for row in table("polyphone_rules"):
        character, before, after, pinyin = row[:4]
        rules.setdefault(character, []).append(
            _Rule(
                re.compile(f"(?:{before})\\Z") if before else None,
                re.compile(after) if after else None,
                pinyin,
            )
        )
    return rules


def _apply_rules(characters: str, before: str, after: str, pinyins: list[str], fixed: list[bool]) -> None:
    if not needs_context(characters):
        return
    rules = _rules()
    text = before + characters + after
    for index, character in enumerate(characters):
        if fixed[index]:
            continue
        for rule in rules.get(character, ()):
            at = len(before) + index
            if rule.before and rule.before.search(text[max(0, at - _LONGEST_WORD) : at]) is None:
                continue
            if rule.after and rule.after.match(text[at + 1 : at + 1 + _LONGEST_WORD]) is None:
                continue
            pinyins[index] = rule.pinyin
            break


@lru_cache(maxsize=4096)
def _is_one_and_two(word: str) -> bool:
    """Whether a word of three characters is one and two, not two and one."""
    from pypinyin.constants import PHRASES_DICT

    return word[1:] in PHRASES_DICT and word[:2] not in PHRASES_DICT


def _simplified(characters: str) -> str:
    """Traditional characters as simplified ones, in which the dictionaries of words are written."""
    try:
        characters.encode("gb2312")
    except UnicodeEncodeError:
        return "".join(map(_simplified_character, characters))
    return characters


@lru_cache(maxsize=8192)
def _simplified_character(character: str) -> str:
    simplified = grammars.simplified(character)
    return simplified if len(simplified) == 1 else character


def _colour(characters: str, pinyins: list[str]) -> None:
    for at in range(1, len(characters)):
        if characters[at] not in "儿兒" or not pinyins[at - 1] or pinyins[at - 1] == "r":
            continue
        following = characters[at + 1 : at + 2]
        is_child = characters[at - 1] == "孩" and characters[max(0, at - 2)] in "小男女"
        if (characters[at - 1] in _NOT_R_COLOURED_BEFORE and not is_child) or (
            following and following in _NOT_R_COLOURED_AFTER
        ):
            continue
        pinyins[at] = "r"
