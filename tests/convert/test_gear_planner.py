from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.convert import gear_planner
from voxrepo.convert.call_cost import NPU_VOCODER, LinearCost
from voxrepo.convert.gear_choice import LIMITS, gear_task, graph_memory
from voxrepo.convert.gear_plan import ONE_GEAR, PLANNED, POWERS_OF_TWO, UNPADDED, GearPlan
from voxrepo.convert.gear_planner import plan_gears
from voxrepo.convert.gear_task import GearMemory, GearTask, Windows
from voxrepo.convert.gears import Gear, aligned, pack_units
from voxrepo.convert.records import read_record
from voxrepo.convert.window_gears import cut
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.stage import GraphSpec, GraphTensor

RECORD = read_record()
COSTS = st.builds(LinearCost, st.floats(0, 1e-2), st.floats(1e-6, 1e-4))
WINDOWS = st.none() | st.builds(Windows, st.integers(0, 24), st.sampled_from([128, 256]))
TASKS = st.builds(
    GearTask,
    lengths=st.lists(st.integers(1, 500), min_size=1, max_size=25),
    cost=COSTS,
    max_gears=st.integers(1, 10),
    batches=st.sets(st.sampled_from([1, 2, 4, 8]), max_size=3).map(sorted),
    limit=st.none() | st.integers(64, 4096),
    longest=st.none() | st.integers(1, 2000),
    windows=WINDOWS,
)
few = settings(max_examples=20, deadline=None)


def unit_s(plan: GearPlan, way: str = PLANNED) -> float:
    return plan.way(way).expected.unit_s


@few
@given(TASKS)
def test_a_plan_is_never_slower_than_powers_of_two_of_as_many_gears(task: GearTask):
    plan = plan_gears(task)
    assert 1 <= len(plan.gears) <= task.max_gears
    assert len(plan.way(POWERS_OF_TWO).gears) <= task.max_gears
    assert unit_s(plan) <= unit_s(plan, POWERS_OF_TWO)
    assert unit_s(plan) <= unit_s(plan, ONE_GEAR)
    assert plan.saving(POWERS_OF_TWO) >= 0


@few
@given(TASKS, st.integers(1, 4))
def test_more_gears_are_never_worse(task: GearTask, more: int):
    assert unit_s(plan_gears(replace(task, max_gears=task.max_gears + more))) <= unit_s(plan_gears(task))


@few
@given(TASKS)
def test_every_unit_has_a_gear_even_alone(task: GearTask):
    gears = plan_gears(task).gears
    alone = [gear.length for gear in gears if gear.batch == 1]
    if task.windows is None:
        assert max(alone) >= max(*task.lengths, task.longest or 1)
        assert all(gear.batch == 1 or task.limit is None or gear.batch * gear.length <= task.limit for gear in gears)
        return
    overlap = task.windows.overlap_frames
    for frames in (*task.lengths, 5000):
        assert cut(frames, sorted({gear.length for gear in gears}), overlap, lambda n: task.cost.seconds(1, n))


@few
@given(TASKS, st.randoms(use_true_random=False))
def test_the_order_of_the_record_does_not_matter_and_a_plan_repeats(task: GearTask, random):
    shuffled = list(task.lengths)
    random.shuffle(shuffled)
    assert plan_gears(replace(task, lengths=shuffled)) == plan_gears(task)


@few
@given(TASKS, st.integers(1, 300), st.integers(0, 5000))
def test_the_memory_limit_is_kept_or_refused_with_numbers(task: GearTask, limit_kb: int, weights: int):
    memory = GearMemory(weights, 40, 100, limit_kb * 1000)
    task = replace(task, memory=memory)
    try:
        plan = plan_gears(task)
    except InvalidArgument as error:
        least = task.windows.first_frames if task.windows else aligned(max(*task.lengths, task.longest or 1))
        assert weights + 140 * least > limit_kb * 1000
        assert f"the limit is {limit_kb / 1e3:.1f} MB" in str(error)
        assert f"takes {(weights + 140 * least) / 1e6:.1f} MB" in str(error)
        return
    for way in plan.ways:
        assert way.memory_bytes <= limit_kb * 1000
    assert plan.way(PLANNED).memory_bytes == memory.bytes_of(plan.gears)


@few
@given(st.lists(st.integers(1, 10).map(lambda n: n * 8), min_size=1, max_size=12), st.integers(1, 3), COSTS)
def test_with_one_row_per_call_the_plan_is_the_best_there_is(lengths, count, cost):
    """Brute force over all sets of lengths, on the very pools that the planner looks at."""
    task = GearTask(lengths, cost, count, batches=(1,))
    longest = max(lengths)
    others = sorted(set(lengths) - {longest})
    planner = gear_planner._Planner(task)
    every = [
        tuple(Gear(1, top) for top in (*some, longest))
        for size in range(min(count, len(others) + 1))
        for some in combinations(others, size)
    ]

    # the record's own distribution, not that of the drawn pools, is what dynamic programming is exact for
    def total(gears):
        return sum(min(cost.seconds(1, gear.length) for gear in gears if gear.length >= length) for length in lengths)

    best = min(every, key=total)
    found = planner._combined(planner._best_lengths(count, (1,)), (1,))
    assert total(found) == pytest.approx(total(best))
    assert planner.expected(plan_gears(task).gears).price <= planner.expected(found).price * (1 + 1e-9)


@pytest.mark.parametrize("graph", ["encoder", "decoder", "generator"])
def test_the_shipped_record_is_padded_less_than_by_as_many_powers_of_two(graph):
    plan = plan_gears(gear_task(graph, RECORD, longest=400 if graph == "encoder" else 4096, overlap_frames=11))
    assert plan.way(PLANNED).expected.padding < plan.way(POWERS_OF_TWO).expected.padding
    assert unit_s(plan) < unit_s(plan, POWERS_OF_TWO) < unit_s(plan, ONE_GEAR)
    assert plan.way(UNPADDED).expected.padding == 1
    assert all(gear.batch == 1 or gear.batch * gear.length <= LIMITS[graph] for gear in plan.gears)


def test_more_gears_are_never_worse_for_the_shipped_record():
    task = gear_task("generator", RECORD, longest=0, overlap_frames=11)
    times = [unit_s(plan_gears(replace(task, max_gears=count))) for count in (1, 2, 4, 7, 8, 9, 12)]
    assert times == sorted(times, reverse=True)


def test_a_tight_memory_gives_up_gears_and_not_units():
    task = gear_task("decoder", RECORD, longest=1024, max_gears=8, memory=GearMemory(0, 1000, 10_000))
    free = plan_gears(task)
    limit = free.way(PLANNED).memory_bytes * 9 // 10
    memory = replace(task.memory, limit_bytes=limit)
    tight = plan_gears(replace(task, memory=memory))
    assert tight.way(PLANNED).memory_bytes <= limit < free.way(PLANNED).memory_bytes
    assert max(gear.length for gear in tight.gears) == 1024
    assert unit_s(tight) >= unit_s(free)


def test_memory_is_that_of_all_buffers_and_of_the_largest_call():
    memory = GearMemory(weights_bytes=1000, io_bytes_per_unit=2, work_bytes_per_unit=30)
    assert memory.bytes_of([Gear(1, 10), Gear(4, 5)]) == 1000 + 2 * 30 + 30 * 20


def test_the_memory_of_a_graph_follows_from_its_tensors():
    spec = GraphSpec(
        file="g.onnx",
        sha256="0" * 64,
        inputs=[GraphTensor(name="features", dtype="FP32", dims=["batch", 80, "frames"])],
        outputs=[GraphTensor(name="audio", dtype="FP32", dims=["batch", 1, "samples"])],
    )
    memory = graph_memory("generator", spec, 256, 7, 9)
    assert (memory.io_bytes_per_unit, memory.weights_bytes, memory.limit_bytes) == (4 * (80 + 256), 7, 9)


def test_the_expected_time_is_that_of_packing_pools():
    task = GearTask([40, 40], NPU_VOCODER, 2, batches=(1, 2))
    plan = plan_gears(task)
    planner = gear_planner._Planner(task)
    packed = [pack_units(pool, plan.gears, NPU_VOCODER) for pool in planner._pools]
    units = sum(map(len, planner._pools))
    assert unit_s(plan) == pytest.approx(sum(one.seconds for one in packed) / units)
    assert unit_s(plan, UNPADDED) == pytest.approx(NPU_VOCODER.seconds(1, 40))


@pytest.mark.parametrize(
    "changes", [{"lengths": []}, {"lengths": [0]}, {"max_gears": 0}, {"max_gears": 101}, {"batches": (0,)}]
)
def test_arguments_out_of_range_are_refused(changes):
    with pytest.raises(ValueError):
        plan_gears(replace(GearTask([8], NPU_VOCODER), **changes))


def test_a_negative_overlap_is_refused():
    with pytest.raises(ValueError, match="negative"):
        plan_gears(GearTask([8], NPU_VOCODER, windows=Windows(-1)))
