"""The phonemizers that a stage may name, and how each is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from text_backend.espeak import Clause, EspeakClient
from text_backend.g2p.english import EnglishPhonemizer
from text_backend.languages.base import Language
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import TextFrontendOptions

CMUDICT_VOICE = "en-us"


class RunningPhonemizer(Protocol):
    """A phonemizer that holds something until it is closed."""

    def start(self) -> str:
        """Become ready; returns what it is, for the log."""

    def phonemize(self, texts: Sequence[str]) -> list[list[Clause]]:
        """Clauses of each text, in order."""

    def close(self) -> None:
        """Give back what it holds."""


def find_phonemizer(options: TextFrontendOptions, language: Language) -> RunningPhonemizer | None:
    """The phonemizer that ``options`` names, not yet started; ``None`` where the language needs none.

    Raises:
        ConfigError: it does not read this language or accent.
    """
    if options.phonemizer == "espeak":
        return EspeakClient(options.phonemizer_voice)
    if options.phonemizer == "pinyin":
        return None
    if language.code != "en" or options.phonemizer_voice.lower() != CMUDICT_VOICE:
        raise ConfigError(
            "options.phonemizer: 'cmudict' reads American English only (language 'en-US', phonemizer_voice "
            f"{CMUDICT_VOICE!r}), not {options.language!r} with {options.phonemizer_voice!r}; use 'espeak'"
        )
    return EnglishPhonemizer()
