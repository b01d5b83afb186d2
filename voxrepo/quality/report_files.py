"""The files of a quality report."""

from __future__ import annotations

from pathlib import Path

from voxrepo.quality.report import QualityReport
from voxrepo.quality.report_markdown import markdown_of
from voxrepo.quality.report_page import page_of
from voxrepo.quality.report_plots import draw_plots
from voxrepo.reports.files import write_files


def write_report(report: QualityReport, folder: Path, *, plots: bool = True) -> list[Path]:
    """Write ``report.html``, which needs no other file, ``report.md``, ``report.json`` and the plots.

    Args:
        report: to be written.
        folder: made if missing; a report that is there is replaced.
        plots: whether to draw them.

    Returns:
        the files.

    Raises:
        ConfigError: matplotlib is missing, or a file cannot be written.
    """
    drawn = draw_plots(report) if plots else []
    files = {
        "report.html": page_of(report, drawn),
        "report.md": markdown_of(report, drawn),
        "report.json": report.judgement.model_dump_json(indent=1) + "\n",
        **{f"{plot.name}.svg": plot.svg for plot in drawn},
    }
    return write_files(folder, files)
