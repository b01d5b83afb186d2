"""A report as one HTML file: plots and audio are inside, nothing is fetched, nothing runs."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

from voxrepo.reports.plots import Plot
from voxrepo.reports.tables import ReportTable

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
"""Content security policy: whatever a text in the report may be, it cannot become more than text."""

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2328; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #d9dee2; }
th { background: #f3f5f7; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: #5b6770; } dd { margin: 0; }
figure { margin: 1rem 0; } figure img { width: 100%; height: auto; }
figcaption, .note { color: #5b6770; font-size: .9rem; }
.sample { border: 1px solid #d9dee2; border-radius: .4rem; padding: .6rem 1rem; margin: .8rem 0; }
.sample blockquote { margin: .2rem 0 .6rem; font-size: 1.05rem; overflow-wrap: anywhere; }
.sample label { display: inline-flex; align-items: center; gap: .6rem; margin-right: 1.5rem; }
.pass { color: #1a7f37; } .fail { color: #b3261e; font-weight: 600; } .inconclusive { color: #8a6100; }
pre { background: #f3f5f7; padding: .8rem; overflow-x: auto; }
.table { overflow-x: auto; }
"""


def page(title: str, sections: Iterable[str]) -> str:
    """The page; ``sections`` are HTML."""
    body = "\n".join([f"<h1>{escape(title)}</h1>", *sections])
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{body}\n</body>\n</html>\n"
    )


def fact_list(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values, one below the other."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts) + "</dl>"


def figure(plot: Plot) -> str:
    """A plot under its title."""
    title, source = escape(plot.title), _data_uri("image/svg+xml", plot.svg.encode())
    return (
        f'<h2>{title}</h2><figure><img alt="{title}" src="{source}">'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def table(shown: ReportTable) -> str:
    """A table under its title; cells that begin with a verdict have its colour."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in shown.headings)
    rows = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown.rows)
    note = f'<p class="note">{escape(shown.note)}</p>' if shown.note else ""
    return (
        f'<h2>{escape(shown.title)}</h2><div class="table"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def sample(text: str, players: Iterable[tuple[str, bytes]], told: str) -> str:
    """A text, what was heard of it by name (WAV files), and what is to be known."""
    heard = "".join(
        f'<label>{escape(name)} <audio controls preload="none" src="{_data_uri("audio/wav", wav)}"></audio></label>'
        for name, wav in players
    )
    return (
        f'<div class="sample"><blockquote>{escape(text)}</blockquote>{heard}'
        f'<div class="note">{escape(told)}</div></div>'
    )


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _cell(text: str) -> str:
    verdict = text.split(" ", 1)[0]
    style = f' class="{verdict}"' if verdict in {"pass", "fail", "inconclusive"} else ""
    return f"<td{style}>{escape(text)}</td>"
