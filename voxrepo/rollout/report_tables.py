"""The tables of a rollout's report, as words; pages and Markdown only dress them."""

from __future__ import annotations

import time

from voxrepo.reports.tables import ReportTable, Row, number
from voxrepo.rollout.gates import GateVerdict
from voxrepo.rollout.metric import METRICS
from voxrepo.rollout.report import Measured, Report


def moment(at: float) -> str:
    """A moment in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + " UTC"


def facts(report: Report) -> list[tuple[str, str]]:
    """What the rollout was, in pairs of name and value."""
    phase = report.phase.replace("_", " ")
    found = [
        ("rollout", report.id),
        ("voice", report.voice),
        ("policy", report.policy),
        ("state", f"{phase}: {report.reason}" if report.reason else phase),
        ("asked for", moment(report.created_at)),
        ("ended", "not yet" if report.ended_at is None else moment(report.ended_at)),
        ("report made", f"{moment(report.made_at)} by {report.made_by}"),
    ]
    if report.promoted is not None:
        found.insert(4, ("promoted arm", report.promoted))
    return found


def tables(report: Report) -> list[ReportTable]:
    """All tables, in order."""
    every = [_arms(report), _gates(report), _metrics(report), _events(report)]
    return [table for table in every if table.rows]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(counts.items()))


def _arms(report: Report) -> ReportTable:
    rows = [
        [
            arm.name,
            ", ".join(f"{stage} {version}" for stage, version in arm.versions.items()),
            _counts(arm.requests) or "none",
            _counts(arm.copies) or "none",
            f"{arm.audio_s:.0f} s",
            str(report.pairs.get(arm.name, "")),
        ]
        for arm in report.arms
    ]
    notes = []
    if report.after_promotion:
        notes.append(
            f"After the promotion, not counted above, with the new versions: {_counts(report.after_promotion)}."
        )
    notes += [f"Pairs of which one half has no audio: {count} times {why}." for why, count in report.faults.items()]
    headings = ["arm", "versions", "requests", "copies for comparison", "audio", "pairs compared"]
    return ReportTable("Arms", " ".join(notes), headings, rows)


def _gates(report: Report) -> ReportTable:
    rows = [_verdict(moment(made.at), each) for made in report.decisions for each in made.verdicts]
    note = "As they were when something was decided."
    if report.judgement is not None and report.ended_at is None:
        rows += [_verdict("now", each) for each in report.judgement.verdicts]
    if report.judgement is not None and report.judgement.winner_reason:
        note += f" {report.judgement.winner_reason}."
    headings = ["when", "arm", "gate", "verdict", "value", "interval", "samples", "limit"]
    return ReportTable("Gates", note, headings, rows)


def _verdict(when: str, found: GateVerdict) -> Row:
    interval = ""
    if found.value is not None:
        interval = f"{number(found.low) or '-inf'} to {number(found.high) or 'inf'}"
    return [
        when,
        found.arm,
        found.metric,
        f"{found.verdict} (only reported)" if found.dry_run else found.verdict,
        number(found.value),
        interval,
        str(found.samples),
        found.limit,
    ]


def _measured(found: Measured | None) -> str:
    if found is None or found.value is None:
        return ""
    low, high = number(found.low) or "-inf", number(found.high) or "inf"
    return f"{number(found.value)} ({low} to {high}; {found.samples})"


def _metrics(report: Report) -> ReportTable:
    rows = []
    for metric in METRICS.values():
        cells = [_measured(arm.metrics.get(metric.name)) for arm in report.arms]
        if any(cells):
            rows.append([metric.name, *cells])
    note = (
        "In brackets the 95 % interval and the number of samples, over the whole rollout up to the promotion; the "
        "gates look at one step at a time. Pair metrics compare an arm with the stable one."
    )
    return ReportTable("What was measured", note, ["metric", *(arm.name for arm in report.arms)], rows)


def _events(report: Report) -> ReportTable:
    rows = []
    for event in report.events:
        moved = event.from_phase != event.to_phase
        what = f"{event.from_phase} → {event.to_phase}" if moved else event.kind
        rows.append([moment(event.at), what.replace("_", " "), event.reason])
    return ReportTable("What happened", "", ["when", "what", "why"], rows)
