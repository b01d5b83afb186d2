from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.convert.precision.search import Damage, Opinion, smallest_kept

GROUPS = [f"g{number}" for number in range(12)]


def needs(*needed: str):
    """A judge to whom exactly these groups matter, and the choices that he was asked about."""
    asked: list[frozenset[str]] = []

    def judge(kept: frozenset[str]) -> Opinion:
        asked.append(kept)
        missing = [name for name in needed if name not in kept]
        return Opinion(not missing, tuple(f"{name} hisses" for name in missing))

    return judge, asked


def harms(**amounts: float):
    return lambda: {name: Damage(amounts.get(name, 0.0), f"{amounts.get(name, 0.0):g} dB alone") for name in GROUPS}


def never() -> dict[str, Damage]:
    raise AssertionError("damage was asked for")


def test_nothing_is_kept_where_nothing_is_needed():
    judge, asked = needs()
    found = smallest_kept(GROUPS, judge, judge, never)
    assert (found.kept, found.accepted, asked) == ({}, True, [frozenset()])
    assert found.lowered == tuple(GROUPS)


def test_what_is_needed_is_kept_with_its_own_damage_as_the_reason():
    judge, asked = needs("g3", "g9")
    found = smallest_kept(GROUPS, judge, judge, harms(g3=2.5, g9=1.5))
    assert found.kept == {
        "g3": "2.5 dB alone, number 1 of 12 by harm; with it lowered beside the rest, g3 hisses",
        "g9": "1.5 dB alone, number 2 of 12 by harm; with it lowered beside the rest, g9 hisses",
    }
    assert found.accepted and len(asked) <= 9


def test_what_damage_ranks_too_high_is_released():
    judge, _ = needs("g3", "g9")
    found = smallest_kept(GROUPS, judge, judge, harms(g3=3.0, g5=2.0, g9=1.5))
    assert list(found.kept) == ["g3", "g9"]


def test_a_thorough_judge_adds_what_the_quick_one_does_not_hear():
    quick, _ = needs("g3")
    thorough, asked = needs("g3", "g7", "g8")
    found = smallest_kept(GROUPS, quick, thorough, harms(g3=3.0, g7=2.0, g8=1.0))
    assert list(found.kept) == ["g3", "g7", "g8"]
    assert "with it lowered beside the rest, g8 hisses" in found.kept["g8"]
    assert len(asked) <= 5


def test_a_quick_judge_who_is_too_strict_is_not_the_last_word():
    quick, _ = needs(*GROUPS)
    thorough, _ = needs("g3")
    assert list(smallest_kept(GROUPS, quick, thorough, harms(g3=3.0)).kept)[:1] == ["g3"]


def test_if_all_is_needed_nothing_is_accepted():
    judge, _ = needs(*GROUPS)
    found = smallest_kept(GROUPS, judge, judge, harms())
    assert not found.accepted and found.lowered == ()


def test_a_single_group_that_is_needed_leaves_nothing():
    judge, asked = needs("g0")
    assert not smallest_kept(["g0"], needs("g0")[0], judge, harms()).accepted
    assert asked == [frozenset()]


@given(
    heard=st.sets(st.sampled_from(GROUPS), max_size=11),
    needed=st.sets(st.sampled_from(GROUPS), max_size=11),
    seed=st.randoms(),
)
@settings(max_examples=80, deadline=None)
def test_judges_are_asked_seldom_and_what_is_accepted_passes(heard, needed, seed):
    quick, asked = needs(*sorted(heard))
    thorough, asked_in_full = needs(*sorted(needed))
    amounts = {name: seed.random() for name in GROUPS}
    found = smallest_kept(GROUPS, quick, thorough, harms(**amounts))
    steps = math.ceil(math.log2(len(GROUPS)))
    assert len(asked) <= steps + math.ceil(len(GROUPS) / 4)
    assert len(asked_in_full) <= 3 + 3 * steps
    assert len(asked) + len(asked_in_full) == len(found.trials)
    if found.accepted:
        assert needed <= set(found.kept)
        assert not found.kept or all("dB alone, number" in reason for reason in found.kept.values())
    assert list(found.kept) == [name for name in GROUPS if name in found.kept]
    assert set(found.kept) | set(found.lowered) == set(GROUPS)


@given(needed=st.sets(st.sampled_from(GROUPS), min_size=1, max_size=11))
def test_where_damage_ranks_rightly_no_layer_too_many_is_kept(needed):
    judge, _ = needs(*sorted(needed))
    found = smallest_kept(GROUPS, judge, judge, harms(**dict.fromkeys(needed, 1.0)))
    assert set(found.kept) == needed
