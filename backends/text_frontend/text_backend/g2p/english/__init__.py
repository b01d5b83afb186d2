"""English for Piper voices without espeak: dictionary, rules, and a small network for what is not listed."""

from __future__ import annotations

from text_backend.g2p.english.phonemizer import EnglishPhonemizer

__all__ = ["EnglishPhonemizer"]
