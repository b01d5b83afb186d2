"""The plots of a rollout's report, as SVG; needs matplotlib (extra ``bench``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from voxrepo.reports.plots import COLOURS, Plot, check_plots, draw_plot
from voxrepo.rollout.metric import FAILED_OUTCOMES, METRICS
from voxrepo.rollout.report import MadeReport, Report
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.statistics import Values, finite

TIME_BINS = 60
LABEL_GAP = 0.03
"""Part of the width between two labels at least."""
CURVE_POINTS = 400
"""Of a distribution's curve: more would not be seen, and make the page large."""


def draw_plots(made: MadeReport) -> list[Plot]:
    """All plots for which there is anything to draw.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    check_plots()
    plots = [
        draw_plot(
            made.report.id,
            "weights",
            "Weights over time",
            "Share of each arm as the rollout set it, and requests that were served, failed ones as crosses. From the "
            "promotion on, stable is what has become it.",
            (11.0, 6.0),
            lambda figure: _draw_weights(figure, made),
        )
    ]
    if any(len(series.at) for series in made.series.values()):
        plots.append(
            draw_plot(
                made.report.id,
                "latency",
                "Latency by arm",
                "Of answered requests: median (line) and 95th percentile (dashed) over time; share of requests that "
                "took no longer.",
                (11.0, 4.0),
                lambda figure: _draw_latency(figure, made),
            )
        )
    if _request_panels(made) or _pair_panels(made):
        plots.append(
            draw_plot(
                made.report.id,
                "quality",
                "Quality by arm",
                "Boxes: the middle half of the requests with the median, whiskers to 1.5 times its width. Histograms: "
                "pairs of the same text and seed; dotted lines are limits of gates.",
                (11.0, 6.5),
                lambda figure: _draw_quality(figure, made),
            )
        )
    return plots


def _colours(report: Report) -> dict[str, str]:
    return {arm.name: COLOURS[number % len(COLOURS)] for number, arm in enumerate(report.arms)}


def _time_scale(report: Report) -> tuple[float, str]:
    """Seconds of the unit of the time axis, and its name."""
    length_s = _end(report) - report.created_at
    for unit_s, name in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if length_s >= 3 * unit_s:
            return unit_s, name
    return 1.0, "seconds"


def _end(report: Report) -> float:
    return max(report.created_at + 1.0, report.made_at if report.ended_at is None else report.ended_at)


def _draw_weights(figure: Any, made: MadeReport) -> None:
    report = made.report
    unit_s, unit = _time_scale(report)
    colours = _colours(report)
    above, below = figure.subplots(2, 1, sharex=True)
    begin, end = report.created_at, _end(report)
    at = np.array([begin, *(share.at for share in report.shares), end])
    everything = [{}, *(share.weights for share in report.shares)]
    everything.append(everything[-1])
    rows = [
        [weights.get(arm.name, 0.0) if weights else 100.0 * (arm.name == "stable") for weights in everything]
        for arm in report.arms
    ]
    names = [arm.name for arm in report.arms]
    above.stackplot(
        (at - begin) / unit_s, rows, labels=names, colors=[colours[name] for name in names], step="post", alpha=0.85
    )
    above.set_ylim(0, 100)
    above.set_ylabel("% of requests")
    above.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    last_label_at = begin - (end - begin)
    for event in report.events:
        if event.from_phase != event.to_phase:
            for axes in (above, below):
                axes.axvline((event.at - begin) / unit_s, color="black", linewidth=0.7, linestyle=":")
            if event.at - last_label_at < LABEL_GAP * (end - begin):
                continue  # it would be written over the last one
            last_label_at = event.at
            above.annotate(
                event.to_phase.replace("_", " "),
                ((event.at - begin) / unit_s, 100),
                xytext=(2, 2),
                textcoords="offset points",
                fontsize=7,
                rotation=30,
            )
    _draw_counts(below, made, colours, begin, unit_s)
    below.set_xlabel(f"{unit} since the rollout was asked for")
    below.set_xlim(0, (end - begin) / unit_s)


def _draw_counts(axes: Any, made: MadeReport, colours: Mapping[str, str], begin: float, unit_s: float) -> None:
    is_shadow = made.report.policy == "shadow"
    for name, colour in colours.items():
        served: dict[int, int] = {}
        failed: dict[int, int] = {}
        for total in made.totals:
            if total.arm == name and total.is_copy == (is_shadow and name != "stable"):
                served[total.minute] = served.get(total.minute, 0) + total.requests
                if total.outcome in FAILED_OUTCOMES:
                    failed[total.minute] = failed.get(total.minute, 0) + total.requests
        for counts, style in ((served, {"marker": ".", "label": name}), (failed, {"marker": "x", "linestyle": ""})):
            minutes = sorted(counts)
            if minutes:
                middle = (np.array(minutes) * 60.0 + 30.0 - begin) / unit_s
                axes.plot(middle, [counts[minute] for minute in minutes], color=colour, **style)
    axes.set_ylabel("requests a minute")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def _draw_latency(figure: Any, made: MadeReport) -> None:
    report = made.report
    unit_s, unit = _time_scale(report)
    over_time, curve = figure.subplots(1, 2)
    edges = np.linspace(report.created_at, _end(report) + 1e-3, TIME_BINS + 1)
    greatest = 0.0
    for name, colour in _colours(report).items():
        series = made.series[name]
        known = np.isfinite(series.latency_s)
        latency_ms = series.latency_s[known] * 1000
        if not len(latency_ms):
            continue
        bins = np.clip(np.digitize(series.at[known], edges) - 1, 0, TIME_BINS - 1)
        filled = np.unique(bins)
        middle = ((edges[filled] + edges[filled + 1]) / 2 - report.created_at) / unit_s
        for quantile, style in ((0.5, "-"), (0.95, "--")):
            values = [np.quantile(latency_ms[bins == each], quantile) for each in filled]
            over_time.plot(middle, values, style, color=colour, marker=".", markersize=3)
        probabilities = np.linspace(0, 1, min(CURVE_POINTS, max(2, len(latency_ms))))
        curve.plot(np.quantile(latency_ms, probabilities), probabilities * 100, color=colour, label=name)
        greatest = max(greatest, float(np.quantile(latency_ms, 0.995)))
    over_time.set_ylim(bottom=0)
    over_time.set_xlabel(f"{unit} since the rollout was asked for")
    over_time.set_ylabel("ms")
    curve.set_xlim(0, greatest * 1.05 if greatest else 1.0)
    curve.set_ylim(0, 100)
    curve.set_xlabel("ms")
    curve.set_ylabel("% of requests")
    curve.legend()
    for axes in (over_time, curve):
        axes.grid(alpha=0.3)


def _request_panels(made: MadeReport) -> dict[str, dict[str, Values]]:
    """By metric and arm, the values that are known; metrics without any are left out."""
    panels = {
        name: {arm: finite(getattr(series, name)) for arm, series in made.series.items()}
        for name in ("real_time_factor", "engine_real_time_factor", "level_dbfs", "silence_ratio")
    }
    return {name: arms for name, arms in panels.items() if any(len(values) for values in arms.values())}


def _pair_panels(made: MadeReport) -> dict[str, dict[str, Values]]:
    names = [name for name, metric in METRICS.items() if metric.source == "pairs"]
    panels = {
        name: {arm: finite(measures[name]) for arm, measures in made.pair_measures.items() if name in measures}
        for name in names
    }
    return {name: arms for name, arms in panels.items() if any(len(values) for values in arms.values())}


def _draw_quality(figure: Any, made: MadeReport) -> None:
    colours = _colours(made.report)
    of_requests, of_pairs = _request_panels(made), _pair_panels(made)
    columns = 3
    lines = -(-len(of_requests) // columns) + -(-len(of_pairs) // columns)
    grid = figure.subplots(max(lines, 1), columns, squeeze=False)
    cells = iter(grid[: -(-len(of_requests) // columns)].flat)
    for name, arms in of_requests.items():
        _draw_boxes(next(cells), _heading(name), arms, colours)
    limits = {gate.metric: gate for gate in parse_spec(made.report.spec).judged_gates if gate.of.source == "pairs"}
    cells = iter(grid[-(-len(of_requests) // columns) :].flat)
    for name, arms in of_pairs.items():
        axes = next(cells)
        _draw_histogram(axes, _heading(name), arms, colours)
        gate = limits.get(name)
        if gate is not None and not gate.compares:
            for bound in gate.bounds:
                if bound is not None:
                    axes.axvline(bound, color="black", linestyle=":")
    for axes in grid.flat:
        if not axes.has_data():
            axes.set_axis_off()


def _heading(name: str) -> str:
    unit = METRICS[name].unit
    return f"{name.removesuffix('_db').removesuffix('_dbfs').replace('_', ' ')}{f' ({unit})' if unit else ''}"


def _draw_boxes(axes: Any, title: str, arms: Mapping[str, Values], colours: Mapping[str, str]) -> None:
    names = [arm for arm, values in arms.items() if len(values)]
    boxes = axes.boxplot([arms[name] for name in names], showfliers=False, patch_artist=True, widths=0.5)
    for patch, name in zip(boxes["boxes"], names, strict=True):
        patch.set(facecolor=colours[name], alpha=0.6)
    for line in boxes["medians"]:
        line.set(color="black")
    axes.set_xticks(range(1, len(names) + 1), names)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="y", alpha=0.3)


def _draw_histogram(axes: Any, title: str, arms: Mapping[str, Values], colours: Mapping[str, str]) -> None:
    for name, values in arms.items():
        if len(values):
            axes.hist(values, bins=min(30, max(5, len(values) // 4)), color=colours[name], alpha=0.6, label=name)
    axes.set_title(title, fontsize=10)
    axes.set_ylabel("pairs")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
