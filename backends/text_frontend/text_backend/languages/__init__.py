"""What the front end knows about each language."""

from __future__ import annotations

import re

from text_backend.languages.base import Language
from text_backend.languages.english import ENGLISH

_TAG = re.compile(r"\A([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*\Z")
_MODULES = {"en": ENGLISH}


def find_language(tag: str) -> Language:
    """The rules for a BCP 47 tag such as ``en-US``.

    English has a module of its own. Any other language gets the rules that hold for all: its own sentence ends,
    width folding and marks, no check of scripts.

    Raises:
        ValueError: ``tag`` is not a language tag.
    """
    match = _TAG.match(tag)
    if match is None:
        raise ValueError(f"{tag!r} is not a BCP 47 language tag such as 'en-US'")
    primary = match.group(1).lower()
    return _MODULES.get(primary) or Language(name=tag, code=primary)
