"""Call costs measured at warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from om_backend.cost_store import CostStore, Seconds
from om_backend.packing import CallCost

BATCHES = (1, 2, 4, 8)
"""Batch sizes tried on a CPU; larger ones leave the caches and only lose."""

MIN_GAIN = 0.25
"""Time per row that a larger batch must save. Below it the noise of the measurement is as large as the gain, and
answers would stop being equal to the bit between a request served alone and one served in a crowd."""

_ROUNDS = 4


def fastest_seconds(calls: dict[int, Callable[[], object]], rounds: int = _ROUNDS) -> dict[int, float]:
    """Least wall time of each call over ``rounds``: other load on the machine only ever adds time.

    The calls take turns, so that a slow moment of the machine meets all of them.
    """
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for batch, call in calls.items():
            seconds[batch] = min(seconds[batch], call_seconds(call))
    return seconds


def measure(
    call_with: Callable[[int], Callable[[], object]],
    reference_length: int,
    batches: Iterable[int] = BATCHES,
    *,
    store: CostStore,
    graph_sha256: str,
) -> CallCost:
    """Time calls of each batch size, or recall the times, and keep the sizes that pay.

    Args:
        call_with: for a batch size, a function that runs the graph once at ``reference_length``.
        reference_length: padded length of those calls.
        batches: batch sizes to try, ascending from 1; the search stops at the first one that costs more per row
            than the one before.
        store: keeps the times for other instances and later starts.
        graph_sha256: of the graph file.
    """

    def time_all() -> Seconds:
        calls: dict[int, Callable[[], object]] = {}
        least_per_row = float("inf")
        for batch in batches:
            calls[batch] = call_with(batch)
            calls[batch]()
            per_row = call_seconds(calls[batch]) / batch
            if per_row > least_per_row:
                break
            least_per_row = per_row
        return {str(batch): seconds for batch, seconds in fastest_seconds(calls).items()}

    try:
        seconds = store.recall(graph_sha256, time_all)
    except OSError:
        # without a place to share them, instances must agree on something that needs no measurement
        return CallCost.per_call(1)
    return CallCost.measured({int(batch): value for batch, value in seconds.items()}, reference_length, MIN_GAIN)


def call_seconds(call: Callable[[], object]) -> float:
    """Wall time of one call; above zero, as a cost must be, also where the clock is too coarse for an empty one."""
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)
