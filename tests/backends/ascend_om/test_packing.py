from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.gears import Gear, GearTable
from om_backend.packing import Call, CallCost, CallTable, pack, shortest_first

LONGEST = 500


@st.composite
def costs(draw: st.DrawFn) -> CallCost:
    others = draw(st.sets(st.integers(2, 8), max_size=4))
    seconds = {batch: draw(st.floats(0.1, 10.0)) for batch in {1, *others}}
    return CallCost(seconds, draw(st.integers(1, 100)))


@st.composite
def gear_tables(draw: st.DrawFn, longest: int = LONGEST) -> GearTable:
    """Any gears with any costs, not every batch at every length, the greatest length among them."""
    gears = draw(st.sets(st.tuples(st.integers(1, 9), st.integers(1, longest)), max_size=8))
    gears.add((draw(st.integers(1, 4)), longest))
    table = GearTable({Gear(*gear): draw(st.floats(0.1, 10.0)) for gear in sorted(gears)})
    return table.limited(draw(st.none() | st.integers(1, 9)))


tables = st.one_of(costs(), gear_tables())
lengths_lists = st.lists(st.integers(1, LONGEST), max_size=40)


def total_seconds(calls: Sequence[Call], table: CallTable) -> float:
    return sum(table.seconds(call.batch, call.length) for call in calls)


def calls_of(groups: Sequence[Sequence[int]], lengths: Sequence[int], table: CallTable) -> list[Call] | None:
    """The cheapest call for each group; ``None`` if a group fits into none."""
    calls = []
    for group in groups:
        shape = table.shape(len(group), max(lengths[index] for index in group))
        if shape is None:
            return None
        calls.append(Call(tuple(group), *shape))
    return calls


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


@given(lengths_lists, tables)
def test_every_unit_is_in_one_call_that_holds_it(lengths: list[int], table: CallTable):
    calls = pack(lengths, table)
    assert sorted(index for call in calls for index in call.units) == list(range(len(lengths)))
    for call in calls:
        assert len(call.units) <= call.batch
        assert max(lengths[index] for index in call.units) <= call.length


@given(lengths_lists, costs())
def test_without_gears_nothing_is_padded_beyond_the_longest(lengths: list[int], cost: CallCost):
    for call in pack(lengths, cost):
        assert call.batch == len(call.units)
        assert call.batch in cost.batches
        assert call.length == max(lengths[index] for index in call.units)


@given(lengths_lists, gear_tables())
def test_calls_are_gears_and_hold_no_more_units_than_allowed(lengths: list[int], table: GearTable):
    for call in pack(lengths, table):
        assert Gear(call.batch, call.length) in table.gears
        assert len(call.units) <= max(table.rows)


@given(lengths_lists, tables)
def test_calls_are_in_order_of_arrival(lengths: list[int], table: CallTable):
    calls = pack(lengths, table)
    assert calls == sorted(calls)
    assert all(list(call.units) == sorted(call.units) for call in calls)


@given(lengths_lists, tables, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_change_the_calls(lengths: list[int], table: CallTable, rng: random.Random):
    def contents(order: Sequence[int]) -> list[tuple[int, int, list[int]]]:
        shuffled = [lengths[index] for index in order]
        return sorted(
            (call.batch, call.length, sorted(shuffled[unit] for unit in call.units)) for call in pack(shuffled, table)
        )

    order = list(range(len(lengths)))
    rng.shuffle(order)
    assert contents(order) == contents(range(len(lengths)))


@given(lengths_lists, tables)
def test_never_costs_more_than_one_by_one(lengths: list[int], table: CallTable):
    alone = calls_of([[index] for index in range(len(lengths))], lengths, table)
    assert alone is not None
    assert total_seconds(pack(lengths, table), table) <= total_seconds(alone, table) * (1 + 1e-9)


@given(lengths_lists, tables, st.booleans())
def test_never_costs_more_than_chunks_of_one_size(lengths: list[int], table: CallTable, by_length: bool):
    """Chunks in order of arrival, padded to the longest, are what a batcher alone makes."""
    order = sorted(range(len(lengths)), key=lambda index: lengths[index] if by_length else index)
    packed = total_seconds(pack(lengths, table), table)
    for size in table.rows:
        chunks = [order[start : start + size] for start in range(0, len(order), size)]
        if not table.pads_rows and chunks and len(chunks[-1]) < size:
            chunks = [*chunks[:-1], *([index] for index in chunks[-1])]
        calls = calls_of(chunks, lengths, table)
        if calls is not None:
            assert packed <= total_seconds(calls, table) * (1 + 1e-9)


@given(st.lists(st.integers(1, 50), max_size=7), st.one_of(costs(), gear_tables(longest=50)))
def test_no_other_grouping_of_a_few_units_costs_less(lengths: list[int], table: CallTable):
    totals = []
    for groups in partitions(list(range(len(lengths)))):
        sizes = {len(group) for group in groups}
        allowed = not sizes or (max(sizes) <= max(table.rows) if table.pads_rows else sizes <= set(table.rows))
        calls = calls_of(groups, lengths, table) if allowed else None
        if calls is not None:
            totals.append(total_seconds(calls, table))
    assert total_seconds(pack(lengths, table), table) == pytest.approx(min(totals), rel=1e-9)


def test_units_of_like_length_share_calls():
    cost = CallCost({1: 1.0, 2: 1.2}, reference_length=100)
    assert [call.units for call in pack([100, 10, 99, 11], cost)] == [(0, 2), (1, 3)]


def test_a_batch_that_does_not_pay_is_not_used():
    cost = CallCost({1: 1.0, 2: 2.5, 3: 4.0}, 10)
    assert pack([10, 10, 10], cost) == [Call((0,), 1, 10), Call((1,), 1, 10), Call((2,), 1, 10)]


def test_packs_as_full_as_possible_when_only_calls_cost():
    assert [len(call.units) for call in pack([5] * 9, CallCost.per_call(4))].count(4) == 2


def test_a_short_unit_rides_along_in_a_long_call_where_that_is_cheaper():
    table = GearTable({Gear(1, 32): 1.0, Gear(2, 64): 1.2, Gear(1, 64): 1.1})
    assert pack([60, 20], table) == [Call((0, 1), 2, 64)]


def test_rows_that_would_stay_empty_are_not_paid_for():
    table = GearTable({Gear(b, 64): 1.0 + b for b in (1, 2, 4, 8)})
    assert [(call.batch, len(call.units)) for call in pack([64] * 7, table)] == [(8, 7)]
    table = GearTable({Gear(b, 64): 0.1 + b for b in (1, 2, 4, 8)})
    assert sorted((call.batch, len(call.units)) for call in pack([64] * 7, table)) == [(1, 1), (2, 2), (4, 4)]


def test_a_unit_longer_than_every_gear_is_not_packed():
    with pytest.raises(ValueError, match="a unit of length 65 fits into no call; the longest takes 64"):
        pack([3, 65], GearTable({Gear(1, 64): 1.0}))


@pytest.mark.parametrize(
    "table",
    [
        CallCost({1: 1.0, 2: 1.7, 4: 3.0, 8: 5.5}, 96),
        GearTable({Gear(b, n): 1 + b * n / 50 for b in (1, 2, 4, 8) for n in (32, 64, 96, 128, 256, 400)}),
    ],
    ids=["any size", "24 gears"],
)
def test_packs_a_thousand_units_in_no_time(table: CallTable):
    lengths = np.random.default_rng(0).integers(10, 400, 1000).tolist()
    seconds = []
    for _ in range(5):
        start = time.process_time()
        pack(lengths, table)
        seconds.append(time.process_time() - start)
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
    def order(groups: list[tuple[int, ...]], work: list[int]) -> list[tuple[int, ...]]:
        return [call.units for call in shortest_first([Call(group, 4, 9) for group in groups], work)]

    # units 0 to 2 belong to a request of 30, unit 3 to one of 5
    assert order([(0,), (1,), (2,), (3,)], [30, 30, 30, 5]) == [(3,), (0,), (1,), (2,)]
    assert order([(0, 1), (2, 3)], [30, 30, 30, 5]) == [(2, 3), (0, 1)]
    assert order([(1,), (0,)], [7, 7]) == [(0,), (1,)]
