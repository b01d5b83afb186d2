"""Parts of a report in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from voxrepo.reports.plots import Plot
from voxrepo.reports.tables import ReportTable

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def escaped(text: str) -> str:
    """Text that stays what it is inside a table of GitHub's Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fact_list(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values, one below the other."""
    return "\n".join(f"* {name}: {escaped(value)}" for name, value in facts)


def figure(plot: Plot) -> str:
    """A plot, which is a file beside the report, under its title."""
    return f"## {plot.title}\n\n![{plot.title}]({plot.name}.svg)\n\n{plot.caption}"


def table(shown: ReportTable, note: str) -> str:
    """A table under its title, and a note in Markdown."""
    lines = [shown.headings, ["---"] * len(shown.headings), *(list(map(escaped, row)) for row in shown.rows)]
    text = f"## {shown.title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{text}\n\n{note}" if note else text
