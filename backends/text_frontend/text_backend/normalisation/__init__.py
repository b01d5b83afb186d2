"""From what was written to what is said: Unicode, layout, rules for numbers and signs, wetext. See ``pipeline.py``."""

from __future__ import annotations
