"""Call costs measured at warm-up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from om_backend.packing import CallCost

BATCHES = (1, 2, 4, 8)
"""Batch sizes tried on a CPU; larger ones leave the caches and only lose."""

MIN_GAIN = 0.25
"""Time per row that a larger batch must save. Below it the noise of the measurement is as large as the gain, and
answers would stop being equal to the bit between a request served alone and one served in a crowd."""

_REPEATS = 3


def fastest_seconds(call: Callable[[], object], repeats: int = _REPEATS) -> float:
    """Least wall time of ``repeats`` calls: other load on the machine only ever adds time."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(
    call_with: Callable[[int], Callable[[], object]], reference_length: int, batches: Iterable[int] = BATCHES
) -> CallCost:
    """Time calls of each batch size and keep the sizes that pay.

    Args:
        call_with: for a batch size, a function that runs the graph once at ``reference_length``.
        reference_length: padded length of those calls.
        batches: batch sizes to try, ascending from 1; the search stops at the first one that costs more per row
            than the one before.
    """
    seconds: dict[int, float] = {}
    for batch in batches:
        call = call_with(batch)
        call()
        seconds[batch] = fastest_seconds(call)
        if len(seconds) > 1 and seconds[batch] / batch > min(s / b for b, s in seconds.items() if b < batch):
            break
    return CallCost.measured(seconds, reference_length, MIN_GAIN)
