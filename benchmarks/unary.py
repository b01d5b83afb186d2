"""Unary latency and throughput: the server next to the same stages in one bare process, in the same run.

``python -m benchmarks.unary [--rounds 3] [--duration-s 8]``. Server and baseline are measured in turn, round by
round, and medians are printed, so that a slow minute of the machine meets both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table
from voxrepo_client import load

from benchmarks.json_process import JsonProcess
from tests.harness import RunningServer, clone_root, edit_yaml, running_server

CLIENTS = (1, 8, 16, 32)
BARE_SETTINGS = ((1, 1), (1, 2), (2, 1))
"""Worker threads x graph threads tried for the bare process; its best counts."""


class BareProcess(JsonProcess):
    """The baseline in a process of its own."""

    def __init__(self, root: Path, workers: int, threads: int) -> None:
        self.label = f"bare process, {workers} x {threads} threads"
        super().__init__(
            *("benchmarks.bare", "--root", str(root), "--workers", str(workers), "--threads", str(threads)),
            hint=f"the {self.label} did not answer",
        )

    def measure(self, duration_s: float) -> dict[str, float]:
        """Rates and latencies over ``duration_s``."""
        answer: dict[str, float] = self.ask({"texts": load.SENTENCES, "duration_s": duration_s})
        return answer

    def __enter__(self) -> BareProcess:
        return self


def measure_server(server: RunningServer, clients: int, duration_s: float) -> dict[str, float]:
    """Rates and latencies of ``clients`` closed-loop gRPC clients."""
    report = load.run(
        "en-joe",
        load.SENTENCES,
        url=f"grpc://{server.grpc_url}",
        clients=clients,
        # a request waits for all others, so the window must grow with their number
        duration_s=duration_s * max(1.0, clients / 8),
        warmup_s=1.0 + clients / 4,
    )
    if report.errors:
        raise SystemExit(f"the server failed requests: {report.errors}")
    return {
        "audio_s_per_s": report.audio_s_per_s,
        "p50_ms": report.latency_s(50) * 1000,
        "p95_ms": report.latency_s(95) * 1000,
    }


def median(rows: list[dict[str, float]]) -> dict[str, float]:
    """Medians by key."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="root with the voice en-joe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration-s", type=float, default=8.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. vocoder__instances=2")
    options = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory(dir=options.root) as scratch:
        run(console, options, clone_voice(options, Path(scratch)))


def clone_voice(options: argparse.Namespace, scratch: Path) -> Path:
    """A root of its own with the voice, settings changed as asked."""
    root = clone_root(options.root, scratch / "root")
    for change in options.set:
        key, value = change.split("=")
        edit_yaml(root / "ensembles/en-joe/voice.yaml", **{f"stages__{key}": int(value) if value.isdigit() else value})
    return root


def run(console: Console, options: argparse.Namespace, root: Path) -> None:
    """Measure in rounds and print the table."""
    bare_rows: dict[str, list[dict[str, float]]] = {}
    server_rows: dict[int, list[dict[str, float]]] = {clients: [] for clients in CLIENTS}
    with running_server(root) as server:
        for round_number in range(options.rounds):
            for workers, threads in BARE_SETTINGS:
                with BareProcess(root, workers, threads) as bare:
                    bare_rows.setdefault(bare.label, []).append(bare.measure(options.duration_s))
            for clients in CLIENTS:
                server_rows[clients].append(measure_server(server, clients, options.duration_s))
            console.print(f"round {round_number + 1} of {options.rounds} done", style="dim")
    print_table(console, {k: median(v) for k, v in bare_rows.items()}, {k: median(v) for k, v in server_rows.items()})


def print_table(console: Console, bare: dict[str, dict[str, float]], server: dict[int, dict[str, float]]) -> None:
    """The table, with the server's rates and latencies as ratios to the best bare setting."""
    best_rate = max(row["audio_s_per_s"] for row in bare.values())
    best_p50_ms = min(row["p50_ms"] for row in bare.values())
    table = Table(title=f"en-joe, {os.cpu_count()} cores, {len(load.SENTENCES)} sentences of 2 to 5 s")
    for column in ("", "audio s/s", "rate / best bare", "p50 ms", "p95 ms", "p50 / best bare"):
        table.add_column(column, justify="left" if not column else "right")

    def add(label: str, row: dict[str, float]) -> None:
        table.add_row(
            label,
            f"{row['audio_s_per_s']:.1f}",
            f"{row['audio_s_per_s'] / best_rate:.2f}",
            f"{row['p50_ms']:.0f}",
            f"{row['p95_ms']:.0f}",
            f"{row['p50_ms'] / best_p50_ms:.2f}",
        )

    for label, row in bare.items():
        add(label, row)
    for clients, row in server.items():
        add(f"server, {clients} client{'s' if clients > 1 else ''}", row)
    console.print(table)


if __name__ == "__main__":
    main()
