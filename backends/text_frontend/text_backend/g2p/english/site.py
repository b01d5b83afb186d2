"""A phone in its word: what the rules of sound look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from text_backend.g2p.english.spelling import Phone

NOTHING = Phone("", -1)


@dataclass(frozen=True)
class Site:
    """One phone and its surroundings.

    Attributes:
        word: spelling in lower case.
        phones: of the whole word.
        index: which of them this is about.
    """

    word: str
    phones: Sequence[Phone]
    index: int

    def at(self, step: int) -> Phone:
        """The phone ``step`` places on (back if negative); one without a name beyond either end."""
        place = self.index + step
        return self.phones[place] if 0 <= place < len(self.phones) else NOTHING

    def move(self, step: int) -> Site:
        """The site ``step`` places on, which must be within the word."""
        return Site(self.word, self.phones, self.index + step)

    @cached_property
    def phone(self) -> Phone:
        """The phone itself."""
        return self.phones[self.index]

    @cached_property
    def before(self) -> Phone:
        """The phone before."""
        return self.at(-1)

    @cached_property
    def after(self) -> Phone:
        """The next phone."""
        return self.at(1)

    @cached_property
    def later(self) -> Phone:
        """The phone after the next."""
        return self.at(2)

    @cached_property
    def rest(self) -> str:
        """The spelling from this phone's letter on; empty if no letter spells it."""
        return self.word[self.phone.at :] if self.phone.at >= 0 else ""

    @property
    def is_first_vowel(self) -> bool:
        """Whether no syllable comes before."""
        return not any(phone.is_vowel for phone in self.phones[: self.index])

    @property
    def next_stress(self) -> int:
        """Stress of the next syllable, -1 if there is none."""
        return next((phone.stress for phone in self.phones[self.index + 1 :] if phone.is_vowel), -1)

    @property
    def previous_stress(self) -> int:
        """Stress of the syllable before, -1 if there is none."""
        return next((phone.stress for phone in reversed(self.phones[: self.index]) if phone.is_vowel), -1)
