"""The texts that ranges and scales are taken from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voxrepo.importers.proof_texts import ProofText
from voxrepo_contract.errors import ConfigError, InvalidArgument

MIN_TEXTS = 8
MIN_FRAMES = 500
MAX_TEXTS = 500
MAX_IDS = 2000
OWN_TEXTS = 12
"""Texts of the voice's own phonemes where no file is given; other ones than those that the result is judged by."""


@dataclass(frozen=True)
class CalibrationSet:
    """Texts as ids, and where they are from, for ``provenance``."""

    texts: tuple[ProofText, ...]
    name: str


def read_calibration(file: Path) -> CalibrationSet:
    """Read texts as ids: one a line, whole numbers with blanks or commas between them.

    Raises:
        ConfigError: the file cannot be read, or a line is something else; the line is named.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=file) from error
    texts: list[ProofText] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not re.fullmatch(r"\s*[0-9]{1,6}([\s,]+[0-9]{1,6})*[\s,]*", line):
            raise ConfigError(
                "is not a text as ids: whole numbers with blanks or commas between them, as `voxrepo say --explain` "
                "shows them",
                file=file,
                line=number,
            )
        ids = tuple(int(part) for part in re.findall(r"[0-9]+", line))
        if len(ids) > MAX_IDS:
            raise ConfigError(f"has {len(ids)} ids; at most {MAX_IDS} are allowed", file=file, line=number)
        texts.append(ProofText(ids, 0))
    if len(texts) > MAX_TEXTS:
        raise ConfigError(f"holds {len(texts)} texts; {MAX_TEXTS} are enough", file=file)
    return CalibrationSet(tuple(texts), file.name)


def check_ids(texts: Sequence[ProofText], id_count: int | None) -> None:
    """Refuse texts with ids that a voice does not have.

    Raises:
        InvalidArgument: naming the text and the id.
    """
    for number, text in enumerate(texts, start=1):
        if id_count is not None and max(text.ids) >= id_count:
            raise InvalidArgument(
                f"--calibration: text {number} has the id {max(text.ids)}, and the voice has ids from 0 to "
                f"{id_count - 1}; is the file of another voice?"
            )


def check_size(texts: int, frames: int) -> None:
    """Refuse a set that would give scales by chance.

    Raises:
        InvalidArgument: with both numbers.
    """
    if texts < MIN_TEXTS or frames < MIN_FRAMES:
        raise InvalidArgument(
            f"calibration set too small: {texts} texts of {frames} frames, and scales need at least {MIN_TEXTS} texts "
            f"and {MIN_FRAMES} frames; add texts to the file, or leave out --calibration to use the voice's own"
        )
