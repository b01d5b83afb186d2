"""What the front end knows about each language."""

from __future__ import annotations

import re

from text_backend.languages.base import Language
from text_backend.languages.english import ENGLISH
from text_backend.languages.mandarin import MANDARIN

_TAG = re.compile(r"\A([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*\Z")
_MODULES = {"en": ENGLISH, "zh": MANDARIN, "cmn": MANDARIN}


def find_language(tag: str) -> Language:
    """The rules for a BCP 47 tag such as ``en-US``.

    English and Mandarin have modules of their own. Any other language gets its own sentence ends,
    the rules for characters and layout, none for numbers, no check of scripts.

    Raises:
        ValueError: ``tag`` is not a language tag.
    """
    match = _TAG.match(tag)
    if match is None:
        raise ValueError(f"{tag!r} is not a BCP 47 language tag such as 'en-US'")
    primary = match.group(1).lower()
    return _MODULES.get(primary) or Language(name=tag, code=primary)
