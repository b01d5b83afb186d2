"""What a lowered stage costs against its source: bytes, and time on this CPU, measured side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

from voxrepo.convert.precision.lowerer import Rows
from voxrepo.convert.proof_cases import open_session
from voxrepo.importers.onnx_run import run

ROUNDS = 5


def time_ratio(source: bytes | str, made: bytes, rows: Rows, rounds: int = ROUNDS) -> float:
    """Time of a graph relative to its source, one thread each.

    The two run turn about on the same inputs, so that what else the machine does hits both; the median of the rounds'
    ratios counts.
    """
    sessions = [open_session(source), open_session(made)]
    some = [rows[len(rows) // 2]] if rows else []
    for session in sessions:
        for row in some:
            run(session, row, "the graph")
    ratios = []
    for _ in range(rounds):
        seconds = []
        for session in sessions:
            begun = time.perf_counter()
            for row in some:
                run(session, row, "the graph")
            seconds.append(time.perf_counter() - begun)
        ratios.append(seconds[1] / max(seconds[0], 1e-9))
    return float(f"{statistics.median(ratios):.3g}")


def cost_table(
    source_bytes: Mapping[str, int],
    made_bytes: Mapping[str, int],
    ratios: Mapping[str, float],
) -> dict[str, Any]:
    """Plain values for ``stage.yaml``, by graph."""
    return {
        name: {"source_bytes": source_bytes[name], "bytes": made_bytes[name], "cpu_time_ratio": ratios[name]}
        for name in made_bytes
    }
