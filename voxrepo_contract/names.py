"""Rules for names that reach the engine, its shell commands and its log lines.

The engine puts model names unquoted into a shell command and parses version directories by their leading
digits; a name outside these rules can run code or hang a load for ever. Hence they are checked before the
engine sees a repository.
"""

from __future__ import annotations

import re

MODEL_NAME_PATTERN = r"[A-Za-z0-9_.-]+"
_MODEL_NAME = re.compile(rf"\A(?!\.)(?!-){MODEL_NAME_PATTERN}\Z")
_VERSION = re.compile(r"\A[1-9][0-9]{0,8}\Z")

VOICE_STAGES = ("text_frontend", "acoustic", "vocoder")
"""The stages of a voice, in the order in which a request passes them."""

STREAM_SUFFIX = ".stream"
"""After a voice's name: the model that answers with pieces of the voice's audio. The edge presents it."""


def is_model_name(name: str) -> bool:
    """Whether ``name`` may name a model: ASCII letters, digits, ``_``, ``.``, ``-``, the first not ``.`` or ``-``."""
    return len(name) <= 128 and _MODEL_NAME.match(name) is not None


def is_version_name(name: str) -> bool:
    """Whether ``name`` is a version directory: a decimal number from 1 to 999,999,999 without leading zeros."""
    return _VERSION.match(name) is not None


def stage_model_name(voice: str, stage: str) -> str:
    """Name of the Triton model that serves ``stage`` of ``voice``."""
    return f"{voice}.{stage}"
