"""The plot of ``voxrepo bench stream``; needs matplotlib (extra ``bench``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voxrepo.cli.bench_stream import StreamBench, load_summary
from voxrepo.importers.requirements import require

SIZE_INCHES = (13.0, 7.0)
RESOLUTION_DPI = 120


def check_plot() -> None:
    """Check that plots can be drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    require("matplotlib", "--plot", "bench")


def _series(rows: Sequence[dict[str, Any]], *path: str) -> list[float]:
    values: list[float] = []
    for row in rows:
        value: Any = row
        for key in path:
            value = value[key]
        values.append(math.nan if value is None else float(value))
    return values


def plot(bench: StreamBench, path: Path) -> None:
    """Draw every number against the streams at once.

    Args:
        bench: what was measured.
        path: PNG file, which is replaced.

    Raises:
        OSError: it cannot be written.
    """
    from matplotlib.figure import Figure

    rows = [load_summary(report) for report in bench.loads]
    counts = [row["streams"] for row in rows]
    figure = Figure(figsize=SIZE_INCHES, dpi=RESOLUTION_DPI, layout="constrained")
    figure.suptitle(f"{bench.voice}: streams at once")
    panels: tuple[tuple[str, str, dict[str, tuple[str, ...]]], ...] = (
        ("first piece", "ms", {each: ("first_piece_ms", each) for each in ("p50", "p99")}),
        ("gap between pieces", "ms", {each: ("gap_ms", each) for each in ("p50", "p99")}),
        ("worst lag (above 0: too late for playback)", "ms", {"worst": ("worst_lag_ms",)}),
        ("total", "ms", {each: ("total_ms", each) for each in ("p50", "p99")}),
        ("real-time factor", "", {each: ("real_time_factor", each) for each in ("p50", "p99")}),
        ("seconds of audio per second", "", {"all streams": ("audio_s_per_s",)}),
    )
    for axes, (title, unit, lines) in zip(figure.subplots(2, 3, squeeze=False).flat, panels, strict=True):
        for label, keys in lines.items():
            axes.plot(counts, _series(rows, *keys), marker="o", label=label)
        if title == "first piece":
            axes.axhline(bench.alone.cold.first_piece_s * 1000, linestyle=":", color="grey", label="cold, alone")
        if title.startswith("worst lag"):
            axes.axhline(0.0, linestyle=":", color="grey")
        else:
            axes.set_ylim(0.0, 1.08 * axes.dataLim.y1 if axes.dataLim.y1 > 0 else 1.0)
        axes.set_title(title)
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.set_xlim(counts[0] / 1.3, counts[-1] * 1.3)
        axes.set_xlabel("streams")
        axes.set_ylabel(unit)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, format="png")
