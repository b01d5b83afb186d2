"""What a live rollout costs at the edge: the same calls with a route and without one, in turns, on one edge process.

``python -m benchmarks.rollout``. The engine is the real tritonserver with an echo voice that costs next to nothing; its
ensemble stands in for the arm's, too. Requests are observed as in a server, their audio measured and written. A block
of calls without a rollout stands beside one with it, and such neighbours are compared, so that a machine that gets
slower or faster meanwhile does not matter.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tritonclient.grpc as triton
from rich.console import Console
from rich.table import Table

from benchmarks.edge import BUSY_MS, CLIENTS, all_inputs, rate
from tests.edge.harness import EdgeProcess, Engine, voice, wait_until
from voxrepo.edge.table import EdgeTable, write_table
from voxrepo.rollout.route import Route
from voxrepo.supervisor.ports import free_port

VOICE, ARM = "en-test", "candidate"
BLOCKS, CALLS = 40, 60
SAMPLES = 66_150
"""Three seconds at 22,050 Hz."""
LOAD_S = 3.0
LOADS = 5


class Place:
    """The edge under test."""

    def __init__(self, folder: Path) -> None:
        self.engine = Engine(folder)
        self.engine.start(free_port())
        self._generation = 1
        self._ready_file = folder / "edge" / "ready.json"
        arguments = ("--rollout-folder", str(folder / "replica"))
        self.edge = EdgeProcess(self.engine.target, folder / "edge", *arguments, table=self._table(has_route=False))

    def _table(self, *, has_route: bool) -> EdgeTable:
        row = voice(f"{VOICE}.{ARM}", voice=VOICE, arm=ARM, engine_model=VOICE)
        route = Route(rollout="r", policy="canary", weights={ARM: 50.0}, labels={"canary": ARM})
        routes = {VOICE: route} if has_route else {}
        voices = {VOICE: voice(VOICE), row.name: row}
        calls = {VOICE: 4}
        pools = {VOICE: 4}
        return EdgeTable(
            generation=self._generation, voices=voices, routes=routes, engine_calls=calls, engine_pools=pools
        )

    def switch(self, *, has_route: bool) -> None:
        """Go on with or without a rollout."""
        self._generation += 1
        write_table(self.edge.table_file, self._table(has_route=has_route))
        wait_until(lambda: json.loads(self._ready_file.read_text())["generation"] == self._generation, "the table")

    def stop(self) -> None:
        """End both processes."""
        self.edge.stop()
        self.engine.stop()


def routing_key(index: int) -> dict[str, str]:
    """The header of one client."""
    return {"x-routing-key": f"user {index}"}


def block_ms(client: Any) -> float:
    """Median wall time of a call."""
    tensors = all_inputs(f"samples {SAMPLES}")
    times = []
    for number in range(CALLS):
        begun = time.perf_counter()
        client.infer(VOICE, tensors, headers=routing_key(number))
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main() -> None:
    """Measure and print the table."""
    without_ms: list[float] = []
    with_ms: list[float] = []
    without_rate: list[float] = []
    with_rate: list[float] = []
    with tempfile.TemporaryDirectory(prefix="vx") as scratch:
        place = Place(Path(scratch))
        try:
            with triton.InferenceServerClient(place.edge.grpc) as client:
                block_ms(client)
                for number in range(BLOCKS):
                    for has_route in (number % 2 == 0, number % 2 == 1):
                        place.switch(has_route=has_route)
                        (with_ms if has_route else without_ms).append(block_ms(client))
            for number in range(LOADS):
                for has_route in (number % 2 == 0, number % 2 == 1):
                    place.switch(has_route=has_route)
                    (with_rate if has_route else without_rate).append(rate(place.edge.grpc, LOAD_S, routing_key))
        finally:
            place.stop()
    differences = sorted(a - b for a, b in zip(with_ms, without_ms, strict=True))
    ratios = sorted(a / b for a, b in zip(with_rate, without_rate, strict=True))
    table = Table(title="cost of a live rollout, echo voice, gRPC")
    for column in ("", "without", "with", "difference"):
        table.add_column(column, justify="left" if not column else "right")
    low, high = differences[BLOCKS // 4], differences[-BLOCKS // 4]
    table.add_row(
        "3 s of audio, 1 client",
        f"{statistics.median(without_ms):.2f} ms",
        f"{statistics.median(with_ms):.2f} ms",
        f"{statistics.median(differences):+.3f} ms (quartiles {low:+.3f}, {high:+.3f})",
    )
    table.add_row(
        f"{CLIENTS} clients, {BUSY_MS} ms model",
        f"{statistics.median(without_rate):.0f} calls/s",
        f"{statistics.median(with_rate):.0f} calls/s",
        f"x {statistics.median(ratios):.3f}",
    )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
