from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.convert.call_cost import NPU_VOCODER
from voxrepo.convert.gears import pack_units
from voxrepo.convert.records import read_record
from voxrepo.convert.window_gears import cut, propose_window_gears


def seconds(window: int) -> float:
    return NPU_VOCODER.seconds(1, window)


@given(st.integers(1, 3000), st.sets(st.integers(4, 40).map(lambda n: n * 16), min_size=1, max_size=6))
def test_windows_cover_a_segment_with_their_overlaps(frames, windows):
    overlap = 11
    chosen = cut(frames, sorted(windows), overlap, seconds)
    assert set(chosen) <= windows
    assert sum(chosen) - 2 * overlap * (len(chosen) - 1) >= frames


@given(st.integers(1, 600))
def test_a_cut_is_never_dearer_than_windows_of_one_size(frames):
    windows, overlap = [48, 128, 256], 11
    chosen = sum(map(seconds, cut(frames, windows, overlap, seconds)))
    for window in windows:
        count = 1 if frames <= window else -(-(frames - 2 * overlap) // (window - 2 * overlap))
        # frames are counted in blocks of 8, which may cost one more of the smallest windows
        assert chosen <= count * seconds(window) + seconds(48)


def test_no_window_covers_a_segment_if_all_are_overlap():
    with pytest.raises(ValueError, match=r"no windows of \[16\] frames cover 20"):
        cut(20, [16], 11, seconds)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.integers(1, 700), min_size=1, max_size=30),
    st.integers(0, 40),
    st.integers(1, 16),
)
def test_a_proposal_covers_any_segment_within_its_limits(frames, overlap, max_gears):
    gears = propose_window_gears(frames, overlap, NPU_VOCODER, max_gears, limit=2048, max_window=256)
    lengths = sorted({gear.length for gear in gears})
    assert 1 <= len(gears) <= max_gears
    assert lengths[-1] > 2 * overlap
    assert {gear.length for gear in gears if gear.batch == 1} >= {lengths[-1]}
    assert all(gear.batch == 1 or gear.batch * gear.length <= 2048 for gear in gears)
    for segment in (*frames, 5000):
        assert cut(segment, lengths, overlap, seconds)


def test_the_first_piece_of_a_stream_can_be_short():
    gears = propose_window_gears(read_record().frames, 11, NPU_VOCODER, limit=2048)
    shortest = min(gears, key=lambda gear: gear.length)
    assert (shortest.batch, shortest.length) == (1, 48)


def test_windows_of_the_shipped_record_waste_little_overlaps_included():
    frames = read_record().frames
    gears = propose_window_gears(frames, 11, NPU_VOCODER, limit=2048)
    lengths = sorted({gear.length for gear in gears})
    units = [window for segment in frames for window in cut(segment, lengths, 11, seconds)]
    assert pack_units(units, gears, NPU_VOCODER).work <= 1.15 * sum(frames)


@pytest.mark.parametrize(("frames", "overlap"), [([], 1), ([0], 1), ([5], -1)])
def test_arguments_out_of_range_are_refused(frames, overlap):
    with pytest.raises(ValueError):
        propose_window_gears(frames, overlap, NPU_VOCODER)
