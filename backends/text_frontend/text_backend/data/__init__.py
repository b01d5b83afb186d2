"""Tables of the front end as tab-separated UTF-8 files.

A line that starts with ``#`` and a blank is a comment; blank lines are passed over.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def table(name: str) -> tuple[tuple[str, ...], ...]:
    """Rows of ``<name>.tsv``, columns stripped of blanks."""
    lines = (_FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return tuple(
        tuple(column.strip() for column in line.split("\t"))
        for line in lines
        if line.strip() and not line.startswith("# ")
    )
