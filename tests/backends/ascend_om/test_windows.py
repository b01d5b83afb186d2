from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.windows import Window, plan_windows


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


@pytest.mark.parametrize(("frames", "window", "overlap"), [(0, 10, 2), (-1, 10, 2), (5, 4, 2), (5, 0, 0)])
def test_refuses_sizes_that_yield_nothing(frames: int, window: int, overlap: int):
    with pytest.raises(ValueError, match="cannot cut"):
        plan_windows(frames, window, overlap)
