"""A rollout's report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from voxrepo.rollout.report import Report
from voxrepo.rollout.report_plots import Plot
from voxrepo.rollout.report_tables import ReportTable, facts, tables

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def escaped(text: str) -> str:
    """Text that stays what it is inside a table of GitHub's Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def markdown_of(report: Report, plots: Sequence[Plot]) -> str:
    """The report; plots are named as files beside it, audio is in the page only."""
    parts = [f"# Rollout {escaped(report.id)}"]
    parts.append("\n".join(f"* {name}: {escaped(value)}" for name, value in facts(report)))
    parts += [f"## {plot.title}\n\n![{plot.title}]({plot.name}.svg)\n\n{plot.caption}" for plot in plots]
    parts += [_table(table) for table in tables(report)]
    if report.samples:
        parts.append(f"## Samples\n\n{len(report.samples)} pairs of audio are in report.html.")
    parts.append(f"## Spec\n\n```yaml\n{report.spec.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _table(table: ReportTable) -> str:
    lines = [table.headings, ["---"] * len(table.headings), *(list(map(escaped, row)) for row in table.rows)]
    text = f"## {table.title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{text}\n\n{table.note}" if table.note else text
