"""How ``voxrepo inspect`` shows what a chip makes of an ONNX file, and what a compiler's log says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from voxrepo_contract.errors import ConfigError

_MOST_NODES = 5
"""Nodes of one problem that are named; the others are counted, and all are in --json."""
_MAX_LOG_BYTES = 64 * 2**20


def describe_for_chip(file: Path, soc: str) -> dict[str, Any]:
    """The operator report of a file as plain values.

    Raises:
        ConfigError: the file cannot be read.
        AtcRefusal: it is not a sound model, or the chip is not known.
    """
    from voxrepo.convert.onnx_graph import read_onnx
    from voxrepo.convert.operator_report import operator_report
    from voxrepo.convert.soc import parse_soc

    chip = parse_soc(soc)
    report = operator_report(read_onnx(file), chip).to_json()
    return {**report, "note": chip.note} if chip.note else report


def describe_log(file: Path) -> dict[str, Any]:
    """Advice from a log of ``atc`` as plain values.

    Raises:
        ConfigError: it cannot be read.
    """
    from voxrepo.convert.atc.advice import advice_from

    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_LOG_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    advice = [
        {"code": e.code, "what": e.what, "where": e.where, "what_to_do": e.what_to_do, "text": e.text}
        for e in advice_from(text)
    ]
    return {"file": str(file), "format": "atc_log", "advice": advice}


def show_log(found: Mapping[str, Any]) -> None:
    """Print the advice."""
    out = Console(highlight=False, soft_wrap=True)
    for entry in found["advice"]:
        place = f" ({entry['where']})" if entry["where"] else ""
        out.print(Text(f"{entry['code'] or 'no code'}: {entry['what']}{place}", style="bold"))
        out.print(Text(f"    {entry['what_to_do']}"))
    if not found["advice"]:
        out.print(Text("no error of atc is in this file"))


def show_for_chip(report: Mapping[str, Any]) -> None:
    """Print the operators and findings."""
    out = Console(highlight=False, soft_wrap=True)
    table = Table("Operator", "Nodes", f"On {report['soc']}")
    for use in report["operators"]:
        parts = [f"{count} replaced by rule {rule}" for rule, count in use["replaced"].items()]
        if use["failing"]:
            parts.append(f"{use['failing']} will fail")
        if use["supported"] or not parts:
            parts.insert(0, "supported" if not parts else f"{use['supported']} supported")
        table.add_row(*(Text(cell) for cell in (use["operator"], str(use["count"]), ", ".join(parts))))
    out.print(table)
    grouped: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for entry in report["findings"]:
        key = tuple(entry[name] for name in ("level", "code", "operator", "what", "what_to_do"))
        grouped.setdefault(key, []).append(entry)
    for (level, code, operator, what, what_to_do), entries in grouped.items():
        head = " ".join(part for part in (level, code) if part)
        subject = f"{operator}: " if operator else ""
        out.print(Text(f"{head}: {subject}{what}", style="bold red" if level == "error" else ""))
        if operator:
            for entry in entries[:_MOST_NODES]:
                scope = f" in {entry['scope']}" if entry["scope"] else ""
                out.print(Text(f"    node {entry['node']}{scope}"))
            if len(entries) > _MOST_NODES:
                out.print(Text(f"    and {len(entries) - _MOST_NODES} more"))
        out.print(Text(f"    {what_to_do}"))


def why_it_fails(report: Mapping[str, Any]) -> Sequence[str]:
    """Errors in short, for the exit message."""
    counts: dict[str, int] = {}
    for entry in report["findings"]:
        if entry["level"] == "error":
            name = f"{entry['code']} {entry['operator']}".strip()
            counts[name] = counts.get(name, 0) + 1
    return [f"{name} ({count} times)" if count > 1 else name for name, count in counts.items()]
