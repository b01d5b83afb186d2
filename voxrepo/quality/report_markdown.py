"""A quality report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from voxrepo.quality.report import QualityReport
from voxrepo.quality.report_tables import facts, tables
from voxrepo.reports import markdown
from voxrepo.reports.plots import Plot


def markdown_of(report: QualityReport, plots: Sequence[Plot]) -> str:
    """The report; plots are named as files beside it, audio is in the page only."""
    parts = [f"# {markdown.escaped(report.title)}", markdown.fact_list(facts(report.judgement))]
    parts += [markdown.table(table, markdown.escaped(table.note)) for table in tables(report.judgement)]
    parts += [markdown.figure(plot) for plot in plots]
    if report.samples:
        parts.append(f"## Samples\n\n{len(report.samples)} pairs of audio are in report.html.")
    return "\n\n".join(parts) + "\n"
