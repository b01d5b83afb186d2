"""Words next to each other: weak forms, stress at a clause's end, and what happens where two words meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from text_backend.g2p.english.rhythm import PRIMARY, SECONDARY
from text_backend.g2p.english.weak_forms import FIRST, FLAPPED, FORMS, JOINED, STRESSED_LAST, WEAK_OBJECTS

_VOWELS = frozenset("ɑæʌɔaɛɜeɪiouʊəɚᵻɐ")
_MARKS = PRIMARY + SECONDARY
_ALONE_LAST = {"a": "ˈeɪ", "to": "tuː"}
_STRONG_LAST = frozenset({"be", "have", "not", "was", "are", "it"})


class Spoken(NamedTuple):
    """A word of a clause.

    Attributes:
        word: in lower case.
        ipa: as it sounds alone.
        glued: whether no blank parts it from the word before ("well-known").
    """

    word: str
    ipa: str
    glued: bool = False


def connect(clause: Sequence[Spoken]) -> str:
    """The phonemes of a clause, words parted by blanks."""
    sounds = [_sound(clause, index) for index in range(len(clause))]
    blanks = [not item.glued for item in clause]
    _join_pairs(clause, sounds, blanks)
    for index in range(len(clause) - 1):
        if _begins_with_vowel(sounds[index + 1]):
            sounds[index] = _before_vowel(clause[index].word, sounds[index])
    parts = [" " + sound if blank else sound for sound, blank in zip(sounds, blanks, strict=True)]
    return "".join(parts).strip()


def _sound(clause: Sequence[Spoken], index: int) -> str:
    word, ipa, _ = clause[index]
    if index == len(clause) - 1 and word in _ALONE_LAST:
        return _ALONE_LAST[word]
    weak = STRESSED_LAST.get(word)
    if weak is None:
        return FORMS.get(word, ipa)
    following = clause[index + 1 :] if index + 3 >= len(clause) else None
    if following is not None and all(item.word in WEAK_OBJECTS for item in following):
        return stressed(weak)
    return FIRST.get(word, weak) if index == 0 else weak


def stressed(weak: str) -> str:
    """A weak form with a primary stress: on its secondary one, else on its first vowel."""
    if SECONDARY in weak:
        return weak.replace(SECONDARY, PRIMARY, 1)
    at = next((index for index, character in enumerate(weak) if character in _VOWELS), 0)
    return weak[:at] + PRIMARY + weak[at:]


def _join_pairs(clause: Sequence[Spoken], sounds: list[str], blanks: list[bool]) -> None:
    words = [item.word for item in clause]
    index = 0
    while index < len(clause) - 1:
        pair = JOINED.get((words[index], words[index + 1]))
        if pair is None or clause[index + 1].glued or (index + 2 == len(clause) and words[-1] in _STRONG_LAST):
            index += 1
            continue
        sounds[index], sounds[index + 1] = pair
        blanks[index + 1] = False
        index += 2


def _begins_with_vowel(sound: str) -> bool:
    return sound.lstrip(_MARKS)[:1] in _VOWELS


def _before_vowel(word: str, sound: str) -> str:
    if word == "the":
        return "ðɪʲ"
    if word == "to" and sound == "tə":
        return "tʊ"
    if word in FLAPPED and sound.endswith("t"):
        return sound[:-1] + "ɾ"
    if sound.endswith(("ɚ", "ɜː")):
        return sound + "ɹ"
    if sound.endswith(("iː", "i")):
        return sound + "ʲ"
    return sound
