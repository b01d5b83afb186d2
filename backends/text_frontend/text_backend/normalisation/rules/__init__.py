"""Rules for what is not written as it is said; one module for each kind of thing.

A rule is a pattern and what to say for a match in each language. Patterns run in linear time: no nested
repetition, every open repetition bounded or of a class that the next item excludes.
"""

from __future__ import annotations
