"""From what is said to the symbols of a voice's inventory; one module for each way to do it. See ``base.py``."""

from __future__ import annotations
