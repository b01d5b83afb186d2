from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.windows import Window, WindowPlanner, plan_windows

from voxrepo_contract.pieces import opening_frames


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int]:
    overlap = draw(st.integers(0, 40))
    window = draw(st.integers(2 * overlap + 1, 2 * overlap + 200))
    frames = draw(st.integers(1, 4000))
    return frames, window, overlap


@given(sizes())
def test_keeps_every_frame_once_and_in_order(sizes: tuple[int, int, int]):
    plan = plan_windows(*sizes)
    edges = [(w.keep_start, w.keep_stop) for w in plan]
    assert edges[0][0] == 0
    assert edges[-1][1] == sizes[0]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    assert all(start < stop for start, stop in edges)


@given(sizes())
def test_inner_edges_have_the_receptive_field_of_real_frames_around_them(sizes: tuple[int, int, int]):
    frames, _, overlap = sizes
    for window in plan_windows(*sizes):
        assert window.start == 0 or window.keep_start - window.start >= overlap
        assert window.stop == frames or window.stop - window.keep_stop >= overlap
        assert 0 <= window.start <= window.keep_start
        assert window.keep_stop <= window.stop <= frames


@given(sizes())
def test_windows_are_of_one_size_unless_the_sequence_is_shorter(sizes: tuple[int, int, int]):
    frames, window, _ = sizes
    assert {w.frames for w in plan_windows(*sizes)} == {min(frames, window)}


@given(sizes())
def test_uses_no_more_windows_than_needed(sizes: tuple[int, int, int]):
    frames, window, overlap = sizes
    step = window - 2 * overlap
    needed = 1 if frames <= window else 1 + -(-(frames - window) // step)
    assert len(plan_windows(*sizes)) == needed


def test_the_last_window_is_moved_left_instead_of_padded():
    assert plan_windows(23, 10, 2) == [
        Window(0, 10, 0, 8),
        Window(6, 16, 8, 14),
        Window(12, 22, 14, 20),
        Window(13, 23, 20, 23),
    ]


@st.composite
def sizes_with_first(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    frames, window, overlap = draw(sizes())
    first = draw(st.integers(2 * overlap + 1, window))
    return frames, window, overlap, first, draw(st.integers(1, first))


@given(sizes_with_first())
def test_with_a_short_first_window_every_frame_is_kept_once_with_true_frames_around(
    sizes: tuple[int, int, int, int, int],
):
    frames, window, overlap, _, least = sizes
    plan = plan_windows(*sizes)
    edges = [(w.keep_start, w.keep_stop) for w in plan]
    assert (edges[0][0], edges[-1][1]) == (0, frames)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    for w in plan:
        assert 0 <= w.start <= w.keep_start < w.keep_stop <= w.stop <= frames
        assert w.start == 0 or w.keep_start - w.start >= overlap
        assert w.stop == frames or w.stop - w.keep_stop >= overlap
        assert min(least, frames) <= w.frames <= window


@given(sizes_with_first())
def test_the_first_window_is_the_short_one_unless_the_sequence_is_hardly_longer(
    sizes: tuple[int, int, int, int, int],
):
    frames, window, _, first, _ = sizes
    plan = plan_windows(*sizes)
    assert plan[0].frames == (frames if frames <= min(2 * first, window) else first)
    assert {w.frames for w in plan[1:-1]} <= {window}
    assert plan[0].frames == opening_frames(frames, first, window)


@given(sizes_with_first())
def test_a_short_first_window_costs_no_more_than_one_overlap_on_both_sides(sizes: tuple[int, int, int, int, int]):
    frames, window, overlap, first, _ = sizes
    work = sum(w.frames for w in plan_windows(frames, window, overlap, first))
    assert work <= sum(w.frames for w in plan_windows(frames, window, overlap)) + 2 * overlap


def test_after_a_short_first_window_the_last_has_its_own_length():
    assert plan_windows(40, 16, 2, 6) == [
        Window(0, 6, 0, 4),
        Window(2, 18, 4, 16),
        Window(14, 30, 16, 28),
        Window(26, 40, 28, 40),
    ]
    assert plan_windows(32, 16, 2, 6, 9)[-1] == Window(23, 32, 28, 32)
    assert plan_windows(12, 16, 2, 6) == [Window(0, 12, 0, 12)]
    assert plan_windows(13, 16, 2, 6) == [Window(0, 6, 0, 4), Window(2, 13, 4, 13)]


@pytest.mark.parametrize("first", [4, 17])
def test_refuses_a_first_window_that_yields_nothing_or_is_longer_than_the_others(first: int):
    with pytest.raises(ValueError, match=f"cannot begin windows of 16 with one of {first}"):
        plan_windows(100, 16, 2, first)


@pytest.mark.parametrize(("frames", "window", "overlap"), [(0, 10, 2), (-1, 10, 2), (5, 4, 2), (5, 0, 0)])
def test_refuses_sizes_that_yield_nothing(frames: int, window: int, overlap: int):
    with pytest.raises(ValueError, match="cannot cut"):
        plan_windows(frames, window, overlap)


@st.composite
def planners(draw: st.DrawFn) -> tuple[WindowPlanner, dict[int, float], int, bool]:
    overlap = draw(st.integers(0, 11))
    lengths = draw(st.sets(st.integers(1, 120), max_size=4)) | {draw(st.integers(2 * overlap + 1, 128))}
    costs = {length: draw(st.floats(0.1, 10.0)) for length in sorted(lengths)}
    may_pad = draw(st.booleans())
    return WindowPlanner(costs, overlap, may_pad=may_pad), costs, overlap, may_pad


def planned(planner: WindowPlanner, frames: int) -> list[Window]:
    try:
        return planner.plan(frames)
    except ValueError:
        return []


@given(planners(), st.integers(1, 1500))
def test_gear_windows_keep_every_frame_once_with_true_frames_around_inner_edges(
    made: tuple[WindowPlanner, dict[int, float], int, bool], frames: int
):
    planner, costs, overlap, may_pad = made
    plan = planned(planner, frames)
    assert plan or not may_pad or frames > max(costs)
    if not plan:
        return
    edges = [(w.keep_start, w.keep_stop) for w in plan]
    assert (edges[0][0], edges[-1][1]) == (0, frames)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    for window in plan:
        assert window.start <= window.keep_start < window.keep_stop <= window.stop <= frames
        assert window.start == 0 or window.keep_start - window.start >= overlap
        assert window.stop == frames or window.stop - window.keep_stop >= overlap


@given(planners(), st.integers(1, 1500))
def test_gear_windows_are_full_unless_the_sequence_is_shorter(
    made: tuple[WindowPlanner, dict[int, float], int, bool], frames: int
):
    planner, costs, _, may_pad = made
    for window in planned(planner, frames):
        assert window.frames in costs or (may_pad and window.frames == frames < max(costs))


@given(planners(), st.integers(1, 1500))
def test_gear_windows_begin_with_the_smallest(made: tuple[WindowPlanner, dict[int, float], int, bool], frames: int):
    sizes = [window.frames for window in planned(made[0], frames)]
    assert sizes == sorted(sizes)


@given(planners(), st.integers(1, 300))
def test_no_other_choice_of_gear_windows_costs_less(
    made: tuple[WindowPlanner, dict[int, float], int, bool], frames: int
):
    planner, costs, overlap, may_pad = made

    def cost_of(window: Window) -> float:
        padded = may_pad and window.frames == frames
        return min(c for n, c in costs.items() if n == window.frames or (padded and n > frames))

    plan = planned(planner, frames)
    have = sum(map(cost_of, plan)) if plan else float("inf")
    alone = [cost for length, cost in costs.items() if length == frames or (may_pad and length > frames)]
    steps = {length - 2 * overlap: cost for length, cost in costs.items() if 2 * overlap < length < frames}
    need = frames - 2 * overlap
    # every multiset of windows, by the useful frames it covers
    cheapest = {0: 0.0}
    for covered in range(need):
        if covered in cheapest:
            for step, cost in steps.items():
                reached = min(need, covered + step)
                cheapest[reached] = min(cheapest.get(reached, float("inf")), cheapest[covered] + cost)
    many = cheapest.get(need, float("inf")) if need > 0 and steps else float("inf")
    assert have == pytest.approx(min([many, *alone]), rel=1e-9)


def test_the_remainder_takes_the_smallest_gear_that_suffices():
    planner = WindowPlanner({32: 32.0, 64: 64.0, 128: 128.0}, 11, may_pad=True)
    assert [w.frames for w in planner.plan(250)] == [64, 128, 128]
    assert planner.plan(250)[-1] == Window(122, 250, 159, 250)
    assert [w.frames for w in planner.plan(128)] == [128]
    assert [w.frames for w in planner.plan(70)] == [32, 64]
    assert [w.frames for w in planner.plan(100)] == [100]
    assert [w.frames for w in planner.plan(5)] == [5]


def test_without_padding_a_sequence_shorter_than_every_gear_cannot_be_cut():
    planner = WindowPlanner({32: 1.0, 64: 1.5}, 8, may_pad=False)
    assert [w.frames for w in planner.plan(33)] == [32, 32]
    with pytest.raises(ValueError, match=r"no choice of windows of \[32, 64\] frames covers 31 frames exactly"):
        planner.plan(31)


def test_a_call_with_a_high_fixed_cost_asks_for_few_windows():
    planner = WindowPlanner({32: 10.3, 128: 11.2}, 11, may_pad=True)
    assert [w.frames for w in planner.plan(120)] == [120]
    assert [w.frames for w in planner.plan(130)] == [32, 128]


def test_plans_an_hour_of_frames_quickly():
    planner = WindowPlanner({32: 1.1, 64: 2.05, 96: 3.0, 128: 3.9}, 11, may_pad=True)
    start = time.perf_counter()
    assert planner.plan(20_000)[-1].stop == 20_000
    assert time.perf_counter() - start < 1.0
    seconds = []
    for frames in (19_000, 18_000, 17_000):
        start = time.process_time()
        planner.plan(frames)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.05


@pytest.mark.parametrize(("costs", "overlap"), [({}, 1), ({0: 1.0}, 1), ({32: 0.0}, 1), ({32: 1.0}, -1)])
def test_a_planner_refuses_sizes_that_cannot_be_used(costs: dict[int, float], overlap: int):
    with pytest.raises(ValueError, match="a plan needs window sizes"):
        WindowPlanner(costs, overlap, may_pad=True)


def test_refuses_to_cut_nothing():
    with pytest.raises(ValueError, match="cannot cut 0 frames"):
        WindowPlanner({32: 1.0}, 1, may_pad=True).plan(0)
