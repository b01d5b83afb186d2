"""The CMU Pronouncing Dictionary: 126,000 English words and names, American, in ARPAbet."""

from __future__ import annotations

import gzip
from bisect import bisect_left
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "data" / "cmudict.tsv.gz"
_BLOCK_LINES = 64


class Dictionary:
    """Words and their pronunciations.

    The table stays one block of bytes: 4 MB, where a dictionary of strings takes 40 MB. The first word of every
    so many lines is looked up by bisection, the rest is a search through some 2 kB.

    Args:
        table: lines ``word<TAB>phones``, UTF-8, in the order of the words' bytes; several for one word in a row,
            the commonest first.
    """

    def __init__(self, table: bytes) -> None:
        self._table = b"\n" + table
        line_ends = np.flatnonzero(np.frombuffer(self._table, np.uint8) == ord("\n"))
        self._blocks: list[int] = line_ends[:-1:_BLOCK_LINES].tolist()
        """Where the line end before the first line of each block is."""
        self._firsts = [self._table[at + 1 : self._table.index(b"\t", at) + 1] for at in self._blocks]

    def find(self, word: str) -> list[list[str]]:
        """Pronunciations of ``word`` (lower case), the commonest first; empty if it is not listed."""
        head = b"\n" + word.encode("utf-8") + b"\t"
        # the pronunciations of one word may begin in the block before the one that begins with it
        block = max(bisect_left(self._firsts, head[1:]) - 1, 0)
        beyond = self._blocks[block + 2] if block + 2 < len(self._blocks) else len(self._table)
        at = self._table.find(head, self._blocks[block], beyond) if self._blocks else -1
        found: list[list[str]] = []
        while at >= 0 and self._table.startswith(head, at):
            end = self._table.index(b"\n", at + 1)
            found.append(self._table[at + len(head) : end].decode("ascii").split())
            at = end
        return found


def read_dictionary(file: Path = FILE) -> Dictionary:
    """Read the table that comes with this package."""
    return Dictionary(gzip.decompress(file.read_bytes()))
