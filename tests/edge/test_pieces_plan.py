from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrepo.edge.pieces_plan import STREAM_GROUPS, Span, WindowSizes, group_sizes, next_span, windows_in_time

SIZES = WindowSizes(window=128, overlap=11, first=48)


def test_the_first_span_is_the_short_window() -> None:
    assert next_span(1000, 0, 1, SIZES) == Span(0, 48)


def test_a_short_segment_is_sent_whole() -> None:
    assert next_span(96, 0, 1, SIZES) == Span(0, 96)


def test_later_spans_begin_with_the_overlap_and_hold_whole_windows() -> None:
    assert next_span(1000, 37, 1, SIZES) == Span(26, 26 + 128)
    assert next_span(1000, 37, 2, SIZES) == Span(26, 26 + 128 + 106)


def test_the_last_span_reaches_back_for_a_window_that_is_moved_left() -> None:
    assert next_span(1000, 990, 4, SIZES) == Span(872, 1000)


def test_groups_grow_once_and_stay() -> None:
    assert list(islice(group_sizes(STREAM_GROUPS), 7)) == [1, 1, 2, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("window_s", "windows"), [(0.0, 4), (0.001, 4), (0.0125, 4), (0.013, 3), (0.025, 2), (0.026, 1), (0.09, 1), (9, 1)]
)
def test_a_group_takes_no_longer_than_a_first_piece_may_wait(window_s: float, windows: int) -> None:
    assert windows_in_time(4, window_s) == windows
    assert windows_in_time(1, window_s) == 1


@pytest.mark.parametrize("sizes", [(20, 10, 20), (30, 10, 20), (30, 5, 31)])
def test_windows_that_yield_no_audio_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no windows"):
        WindowSizes(*sizes)


@pytest.mark.parametrize(("kept", "windows"), [(100, 1), (-1, 1), (0, 0)])
def test_nonsense_is_refused(kept: int, windows: int) -> None:
    with pytest.raises(ValueError, match="no frames follow"):
        next_span(100, kept, windows, SIZES)


@given(st.data())
def test_a_span_always_holds_the_next_window_of_the_plan(data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, 12))
    window = data.draw(st.integers(2 * overlap + 1, 140))
    first = data.draw(st.integers(2 * overlap + 1, window))
    sizes = WindowSizes(window, overlap, first)
    frames, groups = data.draw(st.integers(1, 2000)), data.draw(st.integers(1, 4))
    kept = data.draw(st.integers(0, frames - 1))
    span = next_span(frames, kept, groups, sizes)
    assert 0 <= span.start <= max(kept - overlap, 0)
    assert kept < span.stop <= frames
    size = first if kept == 0 else window
    # a full window of the plan, or the rest of the segment with as many frames as a window that is moved left needs
    if span.stop < frames:
        assert span.stop - max(kept - overlap, 0) >= size
    else:
        assert span.start <= max(0, frames - window) or kept - overlap == span.start or kept == 0
    # what is sent does not grow with the position
    assert span.stop - span.start <= groups * window + overlap
