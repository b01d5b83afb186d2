"""The tables of a quality report, as words; terminal, Markdown and page only dress them."""

from __future__ import annotations

from voxrepo.quality.judgement import Judgement
from voxrepo.quality.metric import METRICS
from voxrepo.quality.report import differing_stages
from voxrepo.reports.tables import ReportTable, number

_OWN = (
    ("p808", "opinion score (P.808)", ""),
    ("level_dbfs", "loudness", "dBFS"),
    ("median_pitch_hz", "median pitch", "Hz"),
    ("silence_ratio", "pauses", "of the frames"),
    ("clipped_ratio", "at full scale", "of the samples"),
    ("error_rate", "recogniser's errors", "of the words"),
)
MAX_TEXT_SHOWN = 60


def facts(judgement: Judgement) -> list[tuple[str, str]]:
    """What was compared, in pairs of name and value."""
    stages = differing_stages(judgement)
    found = [
        ("voice", judgement.voice),
        ("reference", ", ".join(f"{stage} {judgement.reference[stage]}" for stage in stages)),
        ("candidate", ", ".join(f"{stage} {judgement.candidate[stage]}" for stage in stages)),
        ("beside", ", ".join(f"{stage} {name}" for stage, name in judgement.reference.items() if stage not in stages)),
        ("texts", judgement.texts),
        ("verdict", judgement.sentence),
        ("made by", judgement.made_by),
    ]
    found += [("note", note) for note in judgement.notes]
    return [(name, value) for name, value in found if value]


def tables(judgement: Judgement) -> list[ReportTable]:
    """All tables, in order."""
    every = [gates(judgement), metrics(judgement), versions(judgement), costs(judgement), texts(judgement)]
    return [table for table in every if table.rows]


def gates(judgement: Judgement) -> ReportTable:
    """What decides."""
    rows = [
        [
            METRICS[gate.metric].title,
            METRICS[gate.metric].side,
            gate.outcome,
            _with_unit(gate.metric, gate.value),
            gate.limit,
        ]
        for gate in judgement.gates
    ]
    missing = [f"{gate.reason}." for gate in judgement.gates if gate.outcome == "inconclusive"]
    note = (
        "fixed: with the same noise and durations, so that samples line up; free: each as for a listener. A gate on "
        "what was not measured never passes."
    )
    headings = ["gate", "side", "verdict", "value", "limit"]
    return ReportTable("Gates", " ".join([note, *missing]), headings, rows)


def metrics(judgement: Judgement) -> ReportTable:
    """Everything that was measured of the pair, with the worst text of each."""
    rows = []
    for metric in METRICS.values():
        value = judgement.metrics.get(metric.name)
        if value is None and metric.name not in judgement.missing:
            continue
        row = [
            metric.title,
            metric.side,
            _with_unit(metric.name, value) or "not measured",
            _worst(judgement, metric.name),
        ]
        rows.append([*row, metric.meaning if value is not None else judgement.missing[metric.name]])
    headings = ["metric", "side", "all texts", "worst text", "meaning"]
    return ReportTable("What was measured", "", headings, rows)


def versions(judgement: Judgement) -> ReportTable:
    """What was measured of each version alone."""
    rows = []
    for name, title, unit in _OWN:
        one, other = judgement.reference_values.get(name), judgement.candidate_values.get(name)
        if one is not None or other is not None:
            rows.append([f"{title}{f' ({unit})' if unit else ''}", number(one), number(other)])
    return ReportTable("Each version alone", "Means over all texts.", ["", "reference", "candidate"], rows)


def costs(judgement: Judgement) -> ReportTable:
    """Sizes and times."""
    rows = []
    for cost in judgement.costs:
        sizes = [f"{size / 1e6:.2f} MB" for size in (cost.reference_bytes, cost.candidate_bytes)]
        ratio = f"{cost.candidate_bytes / cost.reference_bytes:.2f}" if cost.reference_bytes else ""
        rows.append([f"{cost.stage}: graphs", *sizes, ratio])
        if cost.reference_cpu_s is not None and cost.candidate_cpu_s is not None:
            seconds = [f"{cost.reference_cpu_s:.2f} s", f"{cost.candidate_cpu_s:.2f} s"]
            rows.append([f"{cost.stage}: CPU time", *seconds, number(cost.time_ratio)])
    note = (
        "CPU time in the graphs for all texts, in turns in one process, one thread, the least of two runs each. An "
        "emulated OM is timed on the CPU, too, which says nothing about a chip."
    )
    return ReportTable("Size and time", note, ["", "reference", "candidate", "candidate / reference"], rows)


_PER_TEXT = (
    "fixed_mcd_db", "fixed_pesq", "fixed_snr_db", "duration_ratio", "level_difference_db", "pitch_difference_cents",
    "mcd_db", "p808_drop", "error_rate",
)  # fmt: skip


def texts(judgement: Judgement) -> ReportTable:
    """One row for each text."""
    names = [name for name in _PER_TEXT if any(name in row.values for row in judgement.rows)]
    rows = []
    for at, row in enumerate(judgement.rows):
        text = row.text if len(row.text) <= MAX_TEXT_SHOWN else row.text[: MAX_TEXT_SHOWN - 3] + "..."
        cells = [number(row.values.get(name)) for name in names]
        rows.append([str(at + 1), row.fault or text, *cells])
    headings = ["", "text", *(heading(name) for name in names)]
    return ReportTable("Text by text", "", headings, rows)


def heading(name: str) -> str:
    """A metric's title with its unit."""
    metric = METRICS[name]
    return f"{metric.title} ({metric.unit})" if metric.unit else metric.title


def _with_unit(name: str, value: float | None) -> str:
    if value is None:
        return ""
    unit = METRICS[name].unit
    return f"{number(value)} {unit}" if unit else number(value)


def _worst(judgement: Judgement, name: str) -> str:
    values = [row.values[name] for row in judgement.rows if name in row.values]
    if not values:
        return ""
    aim = METRICS[name].aim
    if aim is None:
        return number(min(values))
    return number(max(values, key=lambda value: abs(value - aim)))
