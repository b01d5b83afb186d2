"""The grammars of wetext that Chinese needs: numbers in their context, and traditional characters as simplified ones.

wetext reads the grammars of all its languages, 35 MB, when it is imported; those of the others are let go at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

from text_backend import memory


class Grammar(Protocol):
    """What is needed of ``wetext.Normalizer``."""

    def normalize(self, text: str) -> str:
        """The spoken form of ``text``."""


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    from wetext.constants import FSTS

    tables: dict[str, Any] = FSTS
    for language in tables.keys() & {"en", "ja"}:
        tables[language].clear()
    tables.get("zh", {}).pop("itn", None)
    memory.give_back()
    return tables


@lru_cache(maxsize=1)
def numbers() -> Grammar:
    """The grammar of Chinese numbers."""
    _tables()
    from wetext import Normalizer

    grammar: Grammar = Normalizer(lang="zh", operator="tn")
    return grammar


def simplified(character: str) -> str:
    """A character as it is written in simplified Chinese."""
    return str(_tables()["preprocess"]["traditional_to_simple"](character))
