from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.convert.call_cost import NPU_VOCODER, LinearCost, TableCost
from voxrepo.convert.gears import Gear, aligned, best_lengths, pack_units, propose_gears
from voxrepo.convert.records import read_record

LENGTHS = st.lists(st.integers(1, 900), min_size=1, max_size=40)
COSTS = st.builds(LinearCost, st.floats(0, 1e-2), st.floats(1e-6, 1e-4))


@settings(max_examples=25, deadline=None)
@given(LENGTHS, COSTS, st.integers(1, 24), st.sets(st.sampled_from([1, 2, 4, 8, 16]), max_size=4))
def test_a_proposal_holds_every_unit_alone_and_stays_within_its_limits(lengths, cost, max_gears, batches):
    gears = propose_gears(lengths, cost, max_gears, sorted(batches), limit=2048)
    assert 1 <= len(gears) <= max_gears
    assert gears == sorted(set(gears))
    assert {gear.batch for gear in gears} <= {1, *batches}
    assert any(gear.batch == 1 and gear.length >= max(lengths) for gear in gears)
    assert max(gear.length for gear in gears) == aligned(max(lengths))
    assert all(gear.batch == 1 or gear.batch * gear.length <= 2048 for gear in gears)
    assert all(gear.length % 8 == 0 for gear in gears)


@settings(max_examples=15, deadline=None)
@given(LENGTHS, COSTS)
def test_a_proposal_is_never_slower_than_one_gear_for_all(lengths, cost):
    gears = propose_gears(lengths, cost, 12, (1, 2, 4))
    one = [Gear(1, aligned(max(lengths)))]
    assert pack_units(lengths, gears, cost).seconds <= pack_units(lengths, one, cost).seconds * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 12).map(lambda n: n * 8), min_size=1, max_size=12), st.integers(1, 4))
def test_the_lengths_are_the_best_there_are(lengths, count):
    def unit_s(length: int) -> float:
        return 1.0 + length

    def total(tops: list[int]) -> float:
        return sum(unit_s(min(top for top in tops if top >= length)) for length in lengths)

    longest = max(lengths)
    found = best_lengths(lengths, count, unit_s, longest)
    others = sorted(set(lengths) - {longest})
    brute = min(
        total([*some, longest]) for size in range(min(count, len(others) + 1)) for some in combinations(others, size)
    )
    assert found == sorted(set(found)) and found[-1] == longest and len(found) <= count
    assert total(found) == pytest.approx(brute)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=7), COSTS)
def test_packing_is_the_best_over_all_partitions(lengths, cost):
    gears = [Gear(1, 32), Gear(1, 64), Gear(2, 32), Gear(4, 64)]

    def price(group: tuple[int, ...]) -> float:
        fits = [g for g in gears if g.batch >= len(group) and g.length >= max(group)]
        return min((cost.seconds(g.batch, g.length) for g in fits), default=float("inf"))

    def brute(rest: tuple[int, ...]) -> float:
        if not rest:
            return 0.0
        first, others = rest[0], range(1, len(rest))
        return min(
            price((first, *(rest[i] for i in chosen))) + brute(tuple(rest[i] for i in others if i not in chosen))
            for size in range(min(4, len(rest)))
            for chosen in combinations(others, size)
        )

    packed = pack_units(lengths, gears, cost)
    assert packed.seconds == pytest.approx(brute(tuple(lengths)))
    assert packed.work >= sum(lengths)


def test_a_unit_longer_than_every_gear_is_an_error_of_the_caller():
    with pytest.raises(ValueError, match="longer than the longest gear, 32"):
        pack_units([40], [Gear(1, 32)], NPU_VOCODER)


def test_a_longer_unit_than_the_record_is_possible_alone():
    gears = propose_gears([50, 60, 70], NPU_VOCODER, 12, longest=400)
    # twice the record on the way, so that a unit a little longer than the record is not padded to the longest
    assert [gear for gear in gears if gear.length > 72] == [Gear(1, 144), Gear(1, 400)]


@pytest.mark.parametrize("max_gears", [1, 2, 3])
def test_few_gears_still_hold_the_longest_unit(max_gears):
    gears = propose_gears([50, 60, 70], NPU_VOCODER, max_gears, longest=4000)
    assert len(gears) <= max_gears
    assert max(gears, key=lambda gear: gear.length) == Gear(1, 4000)


def test_the_same_record_gives_the_same_gears_in_any_order():
    record = read_record()
    assert propose_gears(record.ids, NPU_VOCODER) == propose_gears(record.ids[::-1], NPU_VOCODER)


@pytest.mark.parametrize("pool", [32, 1000])
def test_the_shipped_record_is_padded_by_little(pool):
    record = read_record()
    for units in (record.ids, record.frames):
        gears = propose_gears(units, NPU_VOCODER, limit=4096)
        parts = [units[at : at + pool] for at in range(0, len(units), pool)]
        work = sum(pack_units(part, gears, NPU_VOCODER).work for part in parts)
        assert work <= (1.15 if pool == 1000 else 1.2) * sum(units)


def test_a_proposal_takes_seconds_at_most():
    start = time.perf_counter()
    propose_gears(list(range(1, 3000)), NPU_VOCODER)
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize(
    ("lengths", "max_gears", "batches"), [([], 4, (1,)), ([0], 4, (1,)), ([5], 0, (1,)), ([5], 4, (0,))]
)
def test_arguments_out_of_range_are_refused(lengths, max_gears, batches):
    with pytest.raises(ValueError):
        propose_gears(lengths, NPU_VOCODER, max_gears, batches)


def test_a_table_of_costs_answers_between_its_entries_by_work():
    table = TableCost({(1, 100): 2.0, (4, 100): 4.0})
    assert table.seconds(4, 100) == 4.0
    assert table.seconds(1, 50) == 1.0
    assert table.seconds(2, 100) == 2.0
    assert table.seconds(8, 100) == 8.0


@pytest.mark.parametrize(
    "make", [lambda: TableCost({}), lambda: TableCost({(1, 1): 0.0}), lambda: LinearCost(0.0, 0.0)]
)
def test_costs_that_are_not_positive_are_refused(make):
    with pytest.raises(ValueError):
        make()
