"""How long segments were in the past: what gears are proposed from."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from voxrepo_contract.errors import ConfigError

SHIPPED_RECORD = Path(__file__).parent / "data" / "segment-lengths.csv"
"""Recorded with the default voice; its first lines tell how."""
COLUMNS = ("ids", "frames")
MAX_LENGTH = 32_768
"""Of one segment; six minutes of audio at 256 samples a frame and 22.05 kHz. Planning time grows with it."""
MAX_RECORD_ROWS = 1_000_000


@dataclass(frozen=True)
class LengthRecord:
    """Lengths of segments, one entry each.

    Attributes:
        ids: phoneme ids.
        frames: acoustic frames.
    """

    ids: tuple[int, ...]
    frames: tuple[int, ...]


def read_record(file: Path = SHIPPED_RECORD) -> LengthRecord:
    """Read a CSV file with the columns ``ids`` and ``frames``; lines that begin with ``#`` are comments.

    Raises:
        ConfigError: with file and line.
    """
    if file.exists() and not file.is_file():
        # a pipe or a device may have no end
        raise ConfigError("is no regular file", file=file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line and not line.startswith("#")]
    rows = list(csv.reader(line for _, line in numbered))
    if not rows or tuple(rows[0]) != COLUMNS or not 1 < len(rows) <= MAX_RECORD_ROWS:
        raise ConfigError(f"needs the heading {','.join(COLUMNS)} and one line per segment below it", file=file)
    pairs: list[tuple[int, int]] = []
    for (number, _), row in zip(numbered[1:], rows[1:], strict=True):
        if len(row) != len(COLUMNS) or not all(cell.isascii() and cell.isdigit() and cell.strip("0") for cell in row):
            raise ConfigError(f"needs two positive numbers, ids and frames (got {row})", file=file, line=number)
        if max(len(cell) for cell in row) > len(str(MAX_LENGTH)) or max(map(int, row)) > MAX_LENGTH:
            raise ConfigError(f"a segment has at most {MAX_LENGTH} ids and frames (got {row})", file=file, line=number)
        pairs.append((int(row[0]), int(row[1])))
    return LengthRecord(tuple(ids for ids, _ in pairs), tuple(frames for _, frames in pairs))
