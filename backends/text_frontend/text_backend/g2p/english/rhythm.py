"""Stress marks by rhythm, and the glides between vowels."""

from __future__ import annotations

from collections.abc import Sequence

from text_backend.g2p.english.spelling import Phone

PRIMARY = "\u02c8"
SECONDARY = "\u02cc"

_MARKS = {0: "", 1: PRIMARY, 2: SECONDARY}
_WEAK = ("ə", "ɐ", "ɚ", "ᵻ", "i", "n̩")
_GLIDE = "ʲ"


def spoken_stresses(phones: Sequence[Phone], sounds: Sequence[str]) -> list[int]:
    """Stress of each phone as the voices mark it, 0 for consonants.

    A syllable next to the primary stress carries no secondary one. After it, a full vowel that another unstressed
    syllable parts from the last stress gets one, whether or not the dictionary says so.
    """
    stresses = [max(phone.stress, 0) for phone in phones]
    vowels = [index for index, phone in enumerate(phones) if phone.is_vowel and sounds[index]]
    primary = next((index for index in vowels if stresses[index] == 1), None)
    if primary is None:
        return stresses
    at = vowels.index(primary)
    for place, index in enumerate(vowels):
        before = stresses[vowels[place - 1]] if place else 0
        if place == at + 1 or (place == at - 1 and place == 0):
            stresses[index] = 0
        elif place > at + 1:
            is_last = place == len(vowels) - 1
            can_carry = not before and not _is_weak(phones, sounds, index)
            stresses[index] = 2 if can_carry and (is_last or stresses[index]) else 0
    return stresses


def _is_weak(phones: Sequence[Phone], sounds: Sequence[str], index: int) -> bool:
    """Whether a syllable is too weak for a beat of its own: a reduced vowel, or the ending of "hearing", "village"."""
    before, after = phones[index - 1].name, phones[index + 1].name if index + 1 < len(phones) else ""
    is_ending = sounds[index] == "ɪ" and (after in ("JH", "K") or (after == "NG" and before != "TH"))
    return is_ending or sounds[index] in _WEAK or sounds[index].startswith(("ə", "ɚ"))


def join(phones: Sequence[Phone], sounds: Sequence[str], stresses: Sequence[int]) -> str:
    """The word, with glides after i before vowels."""
    parts: list[str] = []
    for index, sound in enumerate(sounds):
        following = index + 1
        parts.append(_MARKS[stresses[index]] if sound else "")
        has_vowel_after = following < len(phones) and phones[following].is_vowel
        if has_vowel_after and sound == "iː" and stresses[index] == 1 and sounds[following] == "ə":
            # "idea" and "museum", but "Maria" with a glide
            parts.append("iːʲ" if index and phones[index - 1].name == "R" else "i")
        elif has_vowel_after and sound.endswith(("i", "iː", "ɪ")):
            parts.append(sound + _glide(sounds, stresses, index))
        else:
            parts.append(sound)
    return "".join(parts)


def _glide(sounds: Sequence[str], stresses: Sequence[int], index: int) -> str:
    sound, following = sounds[index], sounds[index + 1]
    if sound in ("eɪ", "ɔɪ") or (sound == "i" and following.startswith("ə")):
        return ""
    if sound == "aɪ":
        return _GLIDE if stresses[index + 1] and not following.startswith(("ɪ", "iː")) else ""
    return _GLIDE
