from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.packing import CallCost, pack, shortest_first


@st.composite
def costs(draw: st.DrawFn) -> CallCost:
    others = draw(st.sets(st.integers(2, 8), max_size=4))
    seconds = {batch: draw(st.floats(0.1, 10.0)) for batch in {1, *others}}
    return CallCost(seconds, draw(st.integers(1, 100)))


lengths_lists = st.lists(st.integers(1, 500), max_size=40)


def total_seconds(groups: Sequence[Sequence[int]], lengths: Sequence[int], cost: CallCost) -> float:
    return sum(cost.seconds(len(group), max(lengths[index] for index in group)) for group in groups)


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [item for item in rest if item not in others]
            for tail in partitions(left):
                yield [[first, *others], *tail]


@given(lengths_lists, costs())
def test_every_unit_is_in_one_group_of_a_size_that_the_table_has(lengths: list[int], cost: CallCost):
    groups = pack(lengths, cost)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert {len(group) for group in groups} <= set(cost.batches)


@given(lengths_lists, costs())
def test_groups_are_in_order_of_arrival(lengths: list[int], cost: CallCost):
    groups = pack(lengths, cost)
    assert groups == sorted(groups)
    assert all(group == sorted(group) for group in groups)


@given(lengths_lists, costs())
def test_the_same_units_are_packed_the_same_way(lengths: list[int], cost: CallCost):
    assert pack(lengths, cost) == pack(list(lengths), CallCost(dict(cost.seconds_by_batch), cost.reference_length))


@given(lengths_lists, costs())
def test_never_costs_more_than_one_by_one(lengths: list[int], cost: CallCost):
    alone = [[index] for index in range(len(lengths))]
    assert total_seconds(pack(lengths, cost), lengths, cost) <= total_seconds(alone, lengths, cost) * (1 + 1e-9)


@given(lengths_lists, costs())
def test_never_costs_more_than_chunks_of_one_size(lengths: list[int], cost: CallCost):
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    packed = total_seconds(pack(lengths, cost), lengths, cost)
    for batch in cost.batches:
        whole = len(order) // batch * batch
        chunks = [order[start : start + batch] for start in range(0, whole, batch)]
        chunks += [[index] for index in order[whole:]]
        assert packed <= total_seconds(chunks, lengths, cost) * (1 + 1e-9)


@given(st.lists(st.integers(1, 50), max_size=7), costs())
def test_no_other_grouping_of_a_few_units_costs_less(lengths: list[int], cost: CallCost):
    allowed = (
        groups
        for groups in partitions(list(range(len(lengths))))
        if all(len(group) in cost.seconds_by_batch for group in groups)
    )
    best = min(total_seconds(groups, lengths, cost) for groups in allowed)
    assert total_seconds(pack(lengths, cost), lengths, cost) == pytest.approx(best, rel=1e-9)


def test_units_of_like_length_share_calls():
    cost = CallCost({1: 1.0, 2: 1.2}, reference_length=100)
    assert pack([100, 10, 99, 11], cost) == [[0, 2], [1, 3]]


def test_a_batch_that_does_not_pay_is_not_used():
    assert pack([10, 10, 10], CallCost({1: 1.0, 2: 2.5, 3: 4.0}, 10)) == [[0], [1], [2]]


def test_packs_as_full_as_possible_when_only_calls_cost():
    assert [len(group) for group in pack([5] * 9, CallCost.per_call(4))].count(4) == 2


def test_packs_a_thousand_units_in_no_time():
    lengths = np.random.default_rng(0).integers(10, 400, 1000).tolist()
    cost = CallCost({1: 1.0, 2: 1.7, 4: 3.0, 8: 5.5}, 96)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        pack(lengths, cost)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05


def test_measured_costs_keep_only_batches_that_save_enough_per_row():
    cost = CallCost.measured({1: 1.0, 2: 1.6, 4: 2.9, 8: 8.0}, 96, min_gain=0.25)
    assert cost.batches == (1, 4)


def test_measured_costs_always_keep_the_single_row():
    assert CallCost.measured({1: 1.0, 2: 1.9}, 96, min_gain=0.25).batches == (1,)


@pytest.mark.parametrize(
    ("seconds", "reference"), [({2: 1.0}, 10), ({1: 0.0}, 10), ({1: 1.0, 2: -1.0}, 10), ({1: 1.0}, 0)]
)
def test_refuses_a_table_that_cannot_be_used(seconds: dict[int, float], reference: int):
    with pytest.raises(ValueError, match=r"batch 1|positive"):
        CallCost(seconds, reference)


def test_requests_with_little_work_go_first():
    # units 0 to 2 belong to a request of 30, unit 3 to one of 5
    assert shortest_first([[0], [1], [2], [3]], [30, 30, 30, 5]) == [[3], [0], [1], [2]]
    assert shortest_first([[0, 1], [2, 3]], [30, 30, 30, 5]) == [[2, 3], [0, 1]]
    assert shortest_first([[1], [0]], [7, 7]) == [[0], [1]]
