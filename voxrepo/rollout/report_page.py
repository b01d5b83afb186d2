"""A rollout's report as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from voxrepo.reports import page
from voxrepo.reports.plots import Plot
from voxrepo.reports.tables import number
from voxrepo.rollout.report import MadeReport, Sample
from voxrepo.rollout.report_tables import facts, moment, tables
from voxrepo.rollout.route import STABLE_ARM
from voxrepo_contract.errors import ConfigError


def page_of(made: MadeReport, plots: Sequence[Plot]) -> str:
    """The page.

    Raises:
        ConfigError: an audio file cannot be read.
    """
    report = made.report
    sections = [
        page.fact_list(facts(report)),
        *map(page.figure, plots),
        *map(page.table, tables(report)),
        *_samples(report.samples, made.folder),
        f"<h2>Spec</h2><pre>{escape(report.spec.rstrip())}</pre>",
    ]
    return page.page(f"Rollout {report.id} of {report.voice}", sections)


def _samples(samples: Sequence[Sample], folder: Path) -> Iterable[str]:
    if samples:
        yield '<h2>Samples</h2><p class="note">The same text and seed by both arms.</p>'
    for sample in samples:
        yield _sample(sample, folder)


def _sample(sample: Sample, folder: Path) -> str:
    measures = ", ".join(f"{name} {number(value)}" for name, value in sample.measures.items())
    told = f"{sample.why}; {moment(sample.at)}; seed {sample.seed}, speed {sample.speed:g}"
    told += f", speaker {sample.speaker}" if sample.speaker else ""
    players = []
    for arm in sorted(sample.files, key=lambda arm: arm != STABLE_ARM):
        file = folder / sample.files[arm]
        try:
            players.append((arm, file.read_bytes()))
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    return page.sample(sample.text, players, f"{told}; {measures}" if measures else told)
