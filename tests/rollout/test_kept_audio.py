from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxrepo.rollout.kept_audio import FIRST, WORST, Kept, badness, to_keep

PAIRS = st.lists(
    st.builds(
        Kept,
        arm=st.sampled_from(["a", "b"]),
        id=st.uuids().map(str),
        at=st.floats(0, 1000),
        badness=st.floats(0, 10),
        size_bytes=st.integers(0, 10_000_000),
    ),
    max_size=40,
)


@given(PAIRS)
def test_no_more_is_kept_than_there_is_room_for(pairs) -> None:
    kept = to_keep(pairs)
    assert sum(pair.size_bytes for pair in kept) <= 50_000_000
    assert set(kept) <= set(pairs)
    for arm in ("a", "b"):
        assert sum(pair.arm == arm for pair in kept) <= FIRST + WORST


@given(PAIRS)
def test_keeping_again_keeps_the_same(pairs) -> None:
    kept = to_keep(pairs)
    assert set(to_keep(kept)) == set(kept)


def test_the_worst_stay_longest_where_there_is_little_room() -> None:
    pairs = [Kept("a", str(number), number, float(number), 10) for number in range(20)]
    assert [pair.id for pair in to_keep(pairs, 20)] == ["0", "19"]


def test_what_has_no_audio_is_worst() -> None:
    assert badness({}) == math.inf
    assert badness({"duration_ratio": 0.0}) == math.inf
    assert badness({"duration_ratio": 1.15}) == pytest.approx(badness({"duration_ratio": 1 / 1.15}))
    assert badness({"duration_ratio": 1.0, "level_difference_db": -6.0}) == 2.0
