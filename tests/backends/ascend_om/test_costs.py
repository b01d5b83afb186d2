from __future__ import annotations

import time
from collections.abc import Callable

from om_backend import costs


def sleeping(seconds_by_batch: dict[int, float], tried: list[int]) -> Callable[[int], Callable[[], object]]:
    def call_with(batch: int) -> Callable[[], object]:
        tried.append(batch)
        return lambda: time.sleep(seconds_by_batch[batch])

    return call_with


def test_batches_that_save_time_are_kept():
    tried: list[int] = []
    cost = costs.measure(sleeping({1: 0.02, 2: 0.022, 4: 0.024, 8: 0.026}, tried), 96)
    assert tried == [1, 2, 4, 8]
    assert cost.batches == (1, 2, 4, 8)
    assert 0.02 <= cost.seconds(1, 96) < 0.1


def test_the_search_ends_at_the_first_batch_that_loses():
    tried: list[int] = []
    cost = costs.measure(sleeping({1: 0.01, 2: 0.03}, tried), 96)
    assert tried == [1, 2]
    assert cost.batches == (1,)


def test_the_fastest_of_several_calls_counts():
    waits = iter([0.05, 0.001, 0.05])
    assert costs.fastest_seconds(lambda: time.sleep(next(waits)), repeats=3) < 0.03
