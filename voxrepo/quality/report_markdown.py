"""A quality report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from voxrepo.quality.report import QualityReport
from voxrepo.quality.report_tables import facts, tables
from voxrepo.rollout.report_markdown import escaped
from voxrepo.rollout.report_plots import Plot


def markdown_of(report: QualityReport, plots: Sequence[Plot]) -> str:
    """The report; plots are named as files beside it, audio is in the page only."""
    parts = [f"# {escaped(report.title)}"]
    parts.append("\n".join(f"* {name}: {escaped(value)}" for name, value in facts(report.judgement)))
    for table in tables(report.judgement):
        lines = [table.headings, ["---"] * len(table.headings), *(list(map(escaped, row)) for row in table.rows)]
        text = f"## {table.title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        parts.append(f"{text}\n\n{escaped(table.note)}" if table.note else text)
    parts += [f"## {plot.title}\n\n![{plot.title}]({plot.name}.svg)\n\n{plot.caption}" for plot in plots]
    if report.samples:
        parts.append(f"## Samples\n\n{len(report.samples)} pairs of audio are in report.html.")
    return "\n\n".join(parts) + "\n"
