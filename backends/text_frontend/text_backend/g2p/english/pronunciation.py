"""One word's sound: from the dictionary, from listed parts, by its letters' names, or from its letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from text_backend.g2p.english.arpabet import to_ipa
from text_backend.g2p.english.dictionary import Dictionary
from text_backend.g2p.english.homographs import choose
from text_backend.g2p.english.inflection import derive, with_s
from text_backend.g2p.english.letter_rules import read_roughly
from text_backend.g2p.english.letter_to_sound import MAX_LETTERS, LetterToSound
from text_backend.g2p.english.names import LETTERS, sign_words
from text_backend.g2p.english.preferred import PREFERRED

CAREFUL_WORDS = 200
_CACHED_WORDS = 20_000
_SPELLED_MAX_LETTERS = 12
_ACRONYM_WITH_S = re.compile("([A-Z]{2,8})['\u2019]?s")
_ENDINGS = {"IH0": "ᵻ", "Z": "z", "S": "s"}
_VOWEL_LETTERS = frozenset("aeiouy")
_FOREIGN_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "th", "ı": "i"}
)


class Unlisted:
    """The words of one text that no dictionary has. The first ones are read with care, the rest roughly.

    Gibberish would otherwise hold up everything else: such a word takes a half millisecond, a listed one a fifth of it.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def is_worth_care(self, spelling: str) -> bool:
        """Whether ``spelling`` is among the first :data:`CAREFUL_WORDS` different ones."""
        if len(spelling) > MAX_LETTERS:
            return False
        if spelling not in self._seen and len(self._seen) < CAREFUL_WORDS:
            self._seen.add(spelling)
        return spelling in self._seen


class _Reading(NamedTuple):
    """What is known of a word before its neighbours are looked at.

    Attributes:
        spelling: plain letters, in lower case.
        variants: what the dictionary lists, the commonest first; none for an unlisted word.
        ipa: where the neighbours do not matter, else empty.
        is_spelled: whether it is said by the names of its letters; ``ipa`` says them.
    """

    spelling: str
    variants: tuple[tuple[str, ...], ...] = ()
    ipa: str = ""
    is_spelled: bool = False


class Pronouncer:
    """Knows how words sound.

    Args:
        dictionary: of listed words.
        letters: for words that are not listed.
    """

    def __init__(self, dictionary: Dictionary, letters: LetterToSound) -> None:
        self._dictionary = dictionary
        self._letters = letters
        cached = lru_cache(maxsize=_CACHED_WORDS)
        self._ipa = cached(to_ipa)
        self._short_listed = cached(self._find_listed)
        self._short_reading = cached(self._find_reading)
        self._short_spelled = cached(self._spell)
        self._derived = cached(self._derive)
        self._by_network: dict[str, tuple[str, ...]] = {}

    def knows(self, spelling: str) -> bool:
        """Whether ``spelling`` (lower case) is listed."""
        return bool(self._listed(spelling))

    def learn(self, words: Iterable[str], unlisted: Unlisted) -> None:
        """Work out the sound of those ``words``, in the order of their text, that only the network can read.

        All at once takes a quarter of the time of one by one.
        """
        new: dict[str, None] = {}
        for written in words:
            reading = self._reading(written)
            if reading.variants or reading.is_spelled or not unlisted.is_worth_care(reading.spelling):
                continue
            bare = reading.spelling.replace("'", "")
            if bare not in self._by_network and not self._derived(reading.spelling):
                new[bare] = None
        if len(self._by_network) + len(new) > _CACHED_WORDS:
            self._by_network = {}
        self._by_network.update(zip(new, map(tuple, self._letters.pronounce_all(list(new))), strict=True))

    def word(self, written: str, unlisted: Unlisted, before: str = "", after: str = "", *, past: bool = False) -> str:
        """The IPA of a word.

        Args:
            written: letters and apostrophes, in any case.
            unlisted: of the text that the word is from.
            before: the word before, for words with two sounds.
            after: the word after.
            past: whether it is the past of a verb, for "read".
        """
        spelling, variants, ipa, is_spelled = self._reading(written)
        if ipa or is_spelled:
            return ipa
        if variants:
            return self._ipa(spelling, tuple(choose(spelling, variants, before, after, past=past)))
        if not unlisted.is_worth_care(spelling):
            return read_roughly(spelling)
        return self._ipa(spelling, self._derived(spelling) or self._read_letters(spelling.replace("'", "")))

    def spelled(self, letters: str) -> str:
        """The IPA of the names of ``letters``, said as one word: "IBM"."""
        return self._short_spelled(letters) if len(letters) <= MAX_LETTERS else self._spell(letters)

    def _spell(self, letters: str) -> str:
        spelling = plain_letters(letters)
        chunks = [spelling[at : at + MAX_LETTERS] for at in range(0, len(spelling), MAX_LETTERS)]
        return " ".join(self._ipa("", tuple(_names(chunk))) for chunk in chunks)

    def _reading(self, written: str) -> _Reading:
        return self._short_reading(written) if len(written) <= MAX_LETTERS else self._find_reading(written)

    def _find_reading(self, written: str) -> _Reading:
        spelling = plain_letters(written)
        letters = _ACRONYM_WITH_S.fullmatch(written)
        if letters is not None and self._is_spelled(letters.group(1), letters.group(1).lower()):
            ipa = self.spelled(letters.group(1)) + _ending_of_letter(letters.group(1)[-1].lower())
            return _Reading(spelling, ipa=ipa, is_spelled=True)
        if self._is_spelled(written, spelling):
            return _Reading(spelling, ipa=self.spelled(spelling), is_spelled=True)
        variants = self._listed(spelling)
        return _Reading(spelling, variants, self._ipa(spelling, variants[0]) if len(variants) == 1 else "")

    def _is_spelled(self, written: str, spelling: str) -> bool:
        if len(spelling) == 1:
            return spelling not in ("a", "i") or written == "A"
        variants = self._listed(spelling)
        if variants:
            return spelling not in PREFERRED and _bare(variants[0]) == _bare(_names(spelling))
        has_vowel = any(letter in _VOWEL_LETTERS for letter in spelling)
        return len(spelling) <= _SPELLED_MAX_LETTERS and (not has_vowel or (written.isupper() and len(spelling) <= 3))

    def _listed(self, spelling: str) -> tuple[tuple[str, ...], ...]:
        # no longer word is kept: a cache is bounded by its words' number, not by their length
        return self._short_listed(spelling) if len(spelling) <= MAX_LETTERS else self._find_listed(spelling)

    def _find_listed(self, spelling: str) -> tuple[tuple[str, ...], ...]:
        if spelling in PREFERRED:
            return (tuple(PREFERRED[spelling].split()),)
        listed = self._dictionary.find(spelling)
        if not listed and "'" in spelling:
            listed = self._dictionary.find(spelling.strip("'"))
        return tuple(tuple(phones) for phones in listed)

    def _derive(self, spelling: str) -> tuple[str, ...]:
        return tuple(derive(spelling.strip("'"), lambda part: next(iter(self._listed(part)), ())))

    def _read_letters(self, bare: str) -> tuple[str, ...]:
        known = self._by_network.get(bare)
        if known is None:
            known = self._by_network[bare] = tuple(self._letters.pronounce(bare))
        return known


def _names(spelling: str) -> list[str]:
    return [phone for letter in spelling for phone in LETTERS.get(letter, "").split()]


def _bare(phones: Sequence[str]) -> list[str]:
    return [phone.rstrip("012") for phone in phones]


def _ending_of_letter(letter: str) -> str:
    ending = with_s(LETTERS.get(letter, "AA1").split())
    return "".join(_ENDINGS[phone] for phone in ending[len(LETTERS.get(letter, "AA1").split()) :])


def plain_letters(written: str) -> str:
    """``written`` in lower case a to z and apostrophes: marks on letters are left out, "ß" becomes "ss"."""
    if written.isascii():
        return written.lower()
    decomposed = unicodedata.normalize("NFKD", written.lower().translate(_FOREIGN_LETTERS))
    plain = (letter if letter.isascii() else "".join(sign_words(letter)) for letter in decomposed)
    return "".join(letter for letter in "".join(plain) if "a" <= letter <= "z" or letter == "'")
