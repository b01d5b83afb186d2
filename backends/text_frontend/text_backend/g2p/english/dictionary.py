"""The CMU Pronouncing Dictionary: 126,000 English words and names, American, in ARPAbet."""

from __future__ import annotations

import gzip
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "data" / "cmudict.tsv.gz"


class Dictionary:
    """Words and their pronunciations.

    The table stays one block of bytes, searched by bisection: 4 MB, where a dictionary of strings takes 40 MB.

    Args:
        table: lines ``word<TAB>phones``, UTF-8, in the order of the words' bytes; several for one word in a row,
            the commonest first.
    """

    def __init__(self, table: bytes) -> None:
        self._lines = _Lines(table)

    def find(self, word: str) -> list[list[str]]:
        """Pronunciations of ``word`` (lower case), the commonest first; empty if it is not listed."""
        head = word.encode("utf-8") + b"\t"
        found: list[list[str]] = []
        for index in range(bisect_left(self._lines, head), len(self._lines)):
            line = self._lines[index]
            if not line.startswith(head):
                break
            found.append(line[len(head) :].decode("ascii").split())
        return found


class _Lines(Sequence[bytes]):
    def __init__(self, table: bytes) -> None:
        self._table = table
        ends = np.flatnonzero(np.frombuffer(table, np.uint8) == ord("\n"))
        # indexing an array of Python's own is faster than one of NumPy
        self._ends = array("q", ends.astype(np.int64).tobytes())

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        start = self._ends[index - 1] + 1 if index else 0
        return self._table[start : self._ends[index]]


def read_dictionary(file: Path = FILE) -> Dictionary:
    """Read the table that comes with this package."""
    return Dictionary(gzip.decompress(file.read_bytes()))
