"""A rollout's report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from voxrepo.reports import markdown
from voxrepo.reports.plots import Plot
from voxrepo.rollout.report import Report
from voxrepo.rollout.report_tables import facts, tables


def markdown_of(report: Report, plots: Sequence[Plot]) -> str:
    """The report; plots are named as files beside it, audio is in the page only."""
    parts = [f"# Rollout {markdown.escaped(report.id)}"]
    parts.append(markdown.fact_list(facts(report)))
    parts += [markdown.figure(plot) for plot in plots]
    parts += [markdown.table(table, table.note) for table in tables(report)]
    if report.samples:
        parts.append(f"## Samples\n\n{len(report.samples)} pairs of audio are in report.html.")
    parts.append(f"## Spec\n\n```yaml\n{report.spec.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
