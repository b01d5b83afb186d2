"""A rollout's report as one HTML file: plots and audio are inside, nothing is fetched, nothing runs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from voxrepo.rollout.report import MadeReport, Sample
from voxrepo.rollout.report_plots import Plot
from voxrepo.rollout.report_tables import ReportTable, facts, moment, number, tables
from voxrepo.rollout.route import STABLE_ARM
from voxrepo_contract.errors import ConfigError

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


def page_of(made: MadeReport, plots: Sequence[Plot]) -> str:
    """The page.

    Raises:
        ConfigError: an audio file cannot be read.
    """
    report = made.report
    title = f"Rollout {report.id} of {report.voice}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts(report)) + "</dl>",
        *map(_figure, plots),
        *map(_table, tables(report)),
        *_samples(report.samples, made.folder),
        f"<h2>Spec</h2><pre>{escape(report.spec.rstrip())}</pre>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _figure(plot: Plot) -> str:
    title, source = escape(plot.title), _data_uri("image/svg+xml", plot.svg.encode())
    return (
        f'<h2>{title}</h2><figure><img alt="{title}" src="{source}">'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def _cell(text: str) -> str:
    verdict = text.split(" ", 1)[0]
    style = f' class="{verdict}"' if verdict in {"pass", "fail", "inconclusive"} else ""
    return f"<td{style}>{escape(text)}</td>"


def _table(table: ReportTable) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    rows = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2><div class="table"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


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
            source = _data_uri("audio/wav", file.read_bytes())
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
        players.append(f'<label>{escape(arm)} <audio controls preload="none" src="{source}"></audio></label>')
    return (
        f'<div class="sample"><blockquote>{escape(sample.text)}</blockquote>{"".join(players)}'
        f'<div class="note">{escape(told)}{escape("; " + measures) if measures else ""}</div></div>'
    )
