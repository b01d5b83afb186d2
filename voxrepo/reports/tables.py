"""A table of a report, as words; terminal, Markdown and page only dress it."""

from __future__ import annotations

from dataclasses import dataclass

Row = list[str]


@dataclass(frozen=True)
class ReportTable:
    """Attributes:
    title: above it.
    note: below it; may be empty.
    headings: of the columns.
    rows: of cells, as many as headings.
    """

    title: str
    note: str
    headings: Row
    rows: list[Row]


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
