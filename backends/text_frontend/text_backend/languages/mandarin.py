"""Mandarin.

Chinese characters, Latin and Greek letters have a reading; the grapheme-to-phoneme step counts all others as dropped
(``text_backend.g2p.mandarin``), hence no list of scripts here.
"""

from __future__ import annotations

from text_backend.languages.base import Language

MANDARIN = Language(name="Mandarin", code="zh")
