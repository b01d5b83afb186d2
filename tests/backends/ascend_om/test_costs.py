from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from om_backend import costs
from om_backend.cost_store import CostStore

SHA256 = "0" * 64


def sleeping(seconds_by_batch: dict[int, float], tried: list[int]) -> Callable[[int], Callable[[], object]]:
    def call_with(batch: int) -> Callable[[], object]:
        tried.append(batch)
        return lambda: time.sleep(seconds_by_batch[batch])

    return call_with


def test_batches_that_save_time_are_kept():
    tried: list[int] = []
    times = {1: 0.02, 2: 0.022, 4: 0.024, 8: 0.026}
    cost = costs.measure(sleeping(times, tried), 96, store=CostStore(), graph_sha256=SHA256)
    assert tried == [1, 2, 4, 8]
    assert cost.batches == (1, 2, 4, 8)
    assert 0.02 <= cost.seconds(1, 96) < 0.1


def test_the_search_ends_at_the_first_batch_that_loses():
    tried: list[int] = []
    cost = costs.measure(sleeping({1: 0.01, 2: 0.03}, tried), 96, store=CostStore(), graph_sha256=SHA256)
    assert tried == [1, 2]
    assert cost.batches == (1,)


def test_the_fastest_of_several_rounds_counts():
    waits = iter([0.05, 0.001, 0.05])
    assert costs.fastest_seconds({1: lambda: time.sleep(next(waits))}, rounds=3)[1] < 0.03


def test_a_slow_moment_does_not_make_a_larger_batch_look_cheap():
    clock = {"calls": 0}

    def call(rows: int) -> Callable[[], object]:
        def run() -> None:
            clock["calls"] += 1
            time.sleep(0.004 * rows * (4 if clock["calls"] <= 3 else 1))  # the first calls meet a busy machine

        return run

    cost = costs.measure(call, 96, batches=(1, 2), store=CostStore(), graph_sha256=SHA256)
    assert cost.batches == (1,)


def test_a_second_instance_takes_what_the_first_has_measured(tmp_path: Path):
    store = CostStore(tmp_path / "costs", "1 threads")
    first = costs.measure(sleeping({1: 0.01, 2: 0.011}, []), 96, batches=(1, 2), store=store, graph_sha256=SHA256)
    tried: list[int] = []
    second = costs.measure(sleeping({1: 0.01, 2: 0.05}, tried), 96, batches=(1, 2), store=store, graph_sha256=SHA256)
    assert tried == []
    assert second == first
    assert second.batches == (1, 2)


def test_without_a_writable_folder_instances_agree_on_batch_1(tmp_path: Path):
    (tmp_path / "costs").write_text("a file where the folder should be")
    store = CostStore(tmp_path / "costs")
    cost = costs.measure(sleeping({1: 0.01, 2: 0.011}, []), 96, batches=(1, 2), store=store, graph_sha256=SHA256)
    assert cost.batches == (1,)
