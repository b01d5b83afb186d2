"""Call costs of the gears of a graph, measured at warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from om_backend.cost_store import CostStore, Seconds
from om_backend.costs import call_seconds
from om_backend.gears import Gear, GearTable

_ROUNDS = 3
_BUDGET_S = 6.0
"""For the rounds of one graph. A device needs a fraction of it; where a round takes longer, as on an emulator without
a device, the first run of each gear has to do."""


def measure_gears(
    gears: Sequence[Gear], call_with: Callable[[Gear], Callable[[], object]], *, store: CostStore, graph_sha256: str
) -> GearTable:
    """Run every gear once, then time each, or recall the times.

    Every gear runs at least once even where times are recalled: a device loads and tunes kernels at the first run of
    each shape, and that must not fall to a request.

    Args:
        gears: of the graph.
        call_with: for a gear, a function that runs the graph once in it.
        store: keeps the times for other instances and later starts.
        graph_sha256: of the graph file.

    Raises:
        Whatever a run raises: a gear that does not run must not be found by a request.
    """
    calls = {gear: call_with(gear) for gear in sorted(gears)}
    first: dict[Gear, float] = {}

    def run_each_once() -> None:
        # the largest first: the memory of smaller ones lies within what it took
        for gear in sorted(calls, key=lambda gear: -gear.batch * gear.length):
            first[gear] = call_seconds(calls[gear])

    def time_all() -> Seconds:
        run_each_once()
        samples: dict[Gear, list[float]] = {gear: [] for gear in calls}
        end = time.monotonic() + _BUDGET_S
        # the gears take turns, so that a slow moment of the machine meets all of them
        for _ in range(_ROUNDS):
            if time.monotonic() + sum(first.values()) > end:
                break
            for gear, call in calls.items():
                samples[gear].append(call_seconds(call))
        return {str(gear): statistics.median(samples[gear] or [first[gear]]) for gear in calls}

    try:
        kept = store.recall(graph_sha256, time_all)
    except OSError:
        # without a place to share them, instances must agree on something that needs no measurement
        kept = {}
    if not first:
        run_each_once()
    if set(kept) != {str(gear) for gear in gears}:
        return GearTable.estimated(gears)
    return GearTable.measured({gear: kept[str(gear)] for gear in gears})
