"""The files of a rollout's report."""

from __future__ import annotations

from pathlib import Path

from voxrepo.reports.files import write_files
from voxrepo.rollout.report import MadeReport
from voxrepo.rollout.report_markdown import markdown_of
from voxrepo.rollout.report_page import page_of
from voxrepo.rollout.report_plots import draw_plots


def write_report(made: MadeReport, folder: Path, *, plots: bool = True) -> list[Path]:
    """Write ``report.html``, which needs no other file, ``report.md``, ``report.json`` and the plots.

    Args:
        made: what is reported.
        folder: made if missing; a report that is there is replaced.
        plots: whether to draw them.

    Returns:
        the files.

    Raises:
        ConfigError: matplotlib is missing, or a file cannot be written.
    """
    drawn = draw_plots(made) if plots else []
    texts = {
        "report.html": page_of(made, drawn),
        "report.md": markdown_of(made.report, drawn),
        "report.json": made.report.model_dump_json(indent=1) + "\n",
        **{f"{plot.name}.svg": plot.svg for plot in drawn},
    }
    return write_files(folder, texts)
