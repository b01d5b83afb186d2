"""The plots of a quality report, as SVG; needs matplotlib (extra ``bench``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from voxrepo.quality.levels import FULL_SCALE
from voxrepo.quality.metric import METRICS
from voxrepo.quality.offline import Audio
from voxrepo.quality.report import QualityReport, Sample
from voxrepo.quality.report_tables import heading
from voxrepo.reports.plots import COLOURS, Plot, check_plots, draw_plot

CANDIDATE_COLOUR = COLOURS[1]
_PANELS = ("fixed_mcd_db", "fixed_pesq", "fixed_snr_db", "p808_drop", "level_difference_db", "duration_ratio")
SPECTRUM_RANGE_DB = 70.0
SPECTRUM_FFT = 512
MAX_COLUMNS = 500
"""Of a spectrogram: more would not be seen, and make the page large."""


def draw_plots(report: QualityReport) -> list[Plot]:
    """All plots for which there is anything to draw.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    check_plots()
    plots = []
    panels = [name for name in _PANELS if any(name in row.values for row in report.judgement.rows)]
    if panels:
        plots.append(
            draw_plot(
                report.title,
                "texts",
                "Text by text",
                "Each bar is a text; the dotted line is the gate's limit, which holds for all texts together.",
                (11.0, 2.6 * -(-len(panels) // 3)),
                lambda figure: _draw_bars(figure, report, panels),
            )
        )
    if report.samples:
        sample = report.samples[0]
        plots.append(
            draw_plot(
                report.title,
                "spectrum",
                "Spectrum",
                f"Of text {sample.number + 1}, which {sample.why}: reference, candidate, and where samples line up the "
                "difference of the two, all with the same scale of colours in dB.",
                (11.0, 5.5),
                lambda figure: _draw_spectra(figure, sample, report.sample_rate_hz),
            )
        )
    return plots


def _draw_bars(figure: Any, report: QualityReport, panels: Sequence[str]) -> None:
    rows = report.judgement.rows
    limits = {gate.metric: gate for gate in report.judgement.gates}
    grid = figure.subplots(-(-len(panels) // 3), 3, squeeze=False)
    numbers = np.arange(1, len(rows) + 1)
    for axes, name in zip(grid.flat, panels, strict=False):
        aim = METRICS[name].aim or 0.0
        values = np.array([row.values.get(name, np.nan) for row in rows], dtype=np.float64)
        axes.bar(numbers, values - aim, bottom=aim, color=CANDIDATE_COLOUR)
        axes.set_title(heading(name), fontsize=9)
        axes.grid(axis="y", alpha=0.3)
        for bound in _bounds(limits[name].limit) if name in limits else ():
            axes.axhline(bound, color="black", linestyle=":")
    for axes in grid.flat:
        if not axes.has_data():
            axes.set_axis_off()


def _bounds(limit: str) -> list[float]:
    """The numbers of a limit in words."""
    words = limit.split()
    if "±" not in words:
        return [float(words[2])]
    at = words.index("±")
    aim, by = float(words[0]) if at else 0.0, float(words[at + 1])
    return [aim - by, aim + by]


def _draw_spectra(figure: Any, sample: Sample, rate_hz: int) -> None:
    shown = sample.fixed if sample.fixed is not None else sample.candidate
    panels = [("reference", sample.reference), ("candidate", sample.candidate)]
    if shown.size == sample.reference.size:
        difference = np.clip(shown.astype(np.int32) - sample.reference, -FULL_SCALE - 1, FULL_SCALE)
        panels.append(("difference at the same noise and durations", difference.astype(np.int16)))
    spectra = [_spectrum_db(audio) for _, audio in panels]
    top = max(float(spectra[0].max()), float(spectra[1].max()))
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
    for axes, (title, audio), spectrum in zip(grid.flat, panels, spectra, strict=True):
        image = axes.imshow(
            spectrum.T,
            origin="lower",
            aspect="auto",
            extent=(0, audio.size / rate_hz, 0, rate_hz / 2000),
            vmin=top - SPECTRUM_RANGE_DB,
            vmax=top,
            cmap="magma",
            interpolation="nearest",
        )
        axes.set_ylabel("kHz")
        axes.set_title(title, fontsize=9)
    grid.flat[-1].set_xlabel("s")
    figure.colorbar(image, ax=list(grid.flat), label="dB", shrink=0.6)


def _spectrum_db(audio: Audio) -> Any:
    """FP64 [columns, bins]."""
    samples = np.pad(audio.astype(np.float64) / FULL_SCALE, (0, max(0, SPECTRUM_FFT - audio.size)))
    hop = max(SPECTRUM_FFT // 4, samples.size // MAX_COLUMNS)
    frames = np.lib.stride_tricks.sliding_window_view(samples, SPECTRUM_FFT)[::hop]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(SPECTRUM_FFT), axis=1)))
    return 10 * np.log10(np.maximum(power, 1e-12))
