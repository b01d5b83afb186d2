"""Plots of a report, as SVG; drawing them needs matplotlib (extra ``bench``)."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from voxrepo.importers.requirements import require

COLOURS = ("#5b6770", "#d1495b", "#00798c", "#edae49", "#30638e", "#8d6a9f", "#3a7d44", "#b56576", "#6c757d")
"""That of what others are compared with first."""


@dataclass(frozen=True)
class Plot:
    """Attributes:
    name: of its file, without ending.
    title: above it.
    caption: what is to be seen.
    svg: the picture.
    """

    name: str
    title: str
    caption: str
    svg: str


def check_plots() -> None:
    """Check that plots can be drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    require("matplotlib", "drawing the plots of a report", "bench")


def draw_plot(
    salt: str,
    name: str,
    title: str,
    caption: str,
    size_inches: tuple[float, float],
    draw: Callable[[Any], None],
) -> Plot:
    """Draw one plot.

    Args:
        salt: for ids inside the file: the same report gives the same file.
        name: of the file, without ending.
        title: above it.
        caption: what is to be seen.
        size_inches: width and height.
        draw: draws into a ``matplotlib.figure.Figure``.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure = Figure(figsize=size_inches, layout="constrained")
        draw(figure)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    svg = drawn.getvalue()
    return Plot(name, title, caption, svg[svg.index("<svg") :])
