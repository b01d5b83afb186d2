"""A quality report as a page."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterable, Sequence

from voxrepo.quality.offline import Audio
from voxrepo.quality.report import QualityReport, Sample
from voxrepo.quality.report_tables import facts, heading, tables
from voxrepo.reports import page
from voxrepo.reports.plots import Plot
from voxrepo.reports.tables import number


def page_of(report: QualityReport, plots: Sequence[Plot]) -> str:
    """The page."""
    judgement = report.judgement
    sections = [
        page.fact_list(facts(judgement)),
        *map(page.table, tables(judgement)),
        *map(page.figure, plots),
        *_samples(report),
    ]
    return page.page(report.title, sections)


def _samples(report: QualityReport) -> Iterable[str]:
    if report.samples:
        yield '<h2>Samples</h2><p class="note">The same text and seed by both versions.</p>'
    for sample in report.samples:
        yield _sample(report, sample)


def _sample(report: QualityReport, sample: Sample) -> str:
    values = report.judgement.rows[sample.number].values
    told = [f"text {sample.number + 1}, {sample.why}"]
    told += [f"{heading(name)} {number(value)}" for name, value in values.items()]
    players = [("reference", sample.reference), ("candidate", sample.candidate)]
    if sample.fixed is not None:
        players.append(("candidate, at the reference's durations", sample.fixed))
    heard = [(name, wav_of(audio, report.sample_rate_hz)) for name, audio in players]
    return page.sample(sample.text or "(made-up phonemes)", heard, "; ".join(told))


def wav_of(audio: Audio, sample_rate_hz: int) -> bytes:
    """A WAV file, 16 bit mono."""
    file = io.BytesIO()
    with wave.open(file, "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(sample_rate_hz)
        stream.writeframes(audio.astype("<i2").tobytes())
    return file.getvalue()
