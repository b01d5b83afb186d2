"""What a server does next for a voice under a rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo.rollout.plan import PlannedVoice, Versions
from voxrepo.supervisor.arm_policy import (
    BRIDGE_ARM,
    DropMove,
    Facts,
    Failure,
    Leaving,
    LoadArm,
    Move,
    Release,
    Replace,
    StartMove,
    Swap,
    Withdraw,
    ensemble_of,
    is_settled,
    needed_versions,
    next_action,
    only_of_arms,
    shown_arms,
)

VOICE = "v"
A: Versions = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
B: Versions = {**A, "vocoder": 2}
C: Versions = {**A, "acoustic": 3}
LOADED_A = {stage: frozenset({1}) for stage in A}
LOADED_AB = {**LOADED_A, "vocoder": frozenset({1, 2})}


def wanted(stable: Versions = A, **changes: Any) -> PlannedVoice:
    return PlannedVoice(rollout="r", stable=stable, **changes)


def facts(**changes: Any) -> Facts:
    return Facts(**{"voice": VOICE, "stable": A, "loaded": LOADED_A, **changes})


def free(ensemble: str, versions: Versions) -> bool:
    return True


def in_use(ensemble: str, versions: Versions) -> bool:
    return False


def test_a_wanted_arm_is_loaded_and_then_nothing_is_to_be_done() -> None:
    plan = wanted(arms={"new": B})
    assert next_action(plan, facts(), free) == LoadArm("new", B)
    assert not is_settled(plan, facts())
    ready = facts(arms={"new": B}, loaded=LOADED_AB)
    assert next_action(plan, ready, free) is None
    assert is_settled(plan, ready)
    assert shown_arms(plan, ready) == ["new"]


def test_an_arm_that_failed_is_not_tried_again_until_something_else_is_wanted() -> None:
    plan = wanted(arms={"new": B})
    failed = facts(failures={"new": Failure("r", B, "silent")})
    assert next_action(plan, failed, free) is None
    assert is_settled(plan, failed)
    assert next_action(wanted(arms={"new": C}), failed, free) == LoadArm("new", C)
    assert next_action(plan.model_copy(update={"rollout": "later"}), failed, free) == LoadArm("new", B)


def test_an_arm_leaves_the_table_first_and_the_engine_when_nobody_uses_it() -> None:
    ready = facts(arms={"new": B}, loaded=LOADED_AB)
    for plan in (None, wanted(), wanted(arms={"new": C})):
        assert next_action(plan, ready, free) == Withdraw("new")
        assert shown_arms(plan, ready) == []
    leaving = Leaving(ensemble_of(VOICE, "new"), B, "new", 0.0)
    gone = facts(leaving=(leaving,), loaded=LOADED_AB)
    assert next_action(None, gone, in_use) is None
    assert next_action(None, gone, free) == Release(leaving)
    assert needed_versions(None, gone)["vocoder"] == {1, 2}
    assert needed_versions(None, gone, leaving)["vocoder"] == {1}


def test_an_arm_of_the_same_name_waits_for_its_predecessor_to_be_unloaded() -> None:
    leaving = Leaving(ensemble_of(VOICE, "new"), B, "new", 0.0)
    waiting = facts(leaving=(leaving,), loaded=LOADED_AB)
    assert next_action(wanted(arms={"new": C}), waiting, in_use) is None
    assert next_action(wanted(arms={"other": C}), waiting, in_use) == LoadArm("other", C)


def test_stable_moves_over_the_arm_that_has_its_new_versions() -> None:
    plan = wanted(B, arms={"new": B, "previous": A})
    ready = facts(arms={"new": B}, loaded=LOADED_AB)
    move = Move("new", A, B)
    assert next_action(plan, ready, in_use) == StartMove(move)
    moving = replace(ready, move=move)
    assert next_action(plan, moving, in_use) is None, "requests for the old versions are still on their way"
    assert next_action(plan, moving, free) == Swap(move)
    assert not is_settled(plan, moving)
    old = Leaving(VOICE, A, None, 0.0)
    moved = facts(stable=B, arms={"new": B}, leaving=(old,), loaded=LOADED_AB)
    assert next_action(plan, moved, in_use) == LoadArm("previous", A)
    assert next_action(plan, moved, free) == Release(old)
    assert needed_versions(plan, moved, old)["vocoder"] == {1, 2}, "the arm that keeps them is about to be loaded"


@pytest.mark.parametrize("stable", [A, C])
def test_a_move_to_what_is_not_wanted_any_more_is_dropped_at_once(stable: Versions) -> None:
    moving = facts(arms={"new": B}, loaded=LOADED_AB, move=Move("new", A, B))
    assert next_action(wanted(stable), moving, in_use) == DropMove()
    assert next_action(None, moving, free) == Swap(Move("new", A, B)), "nothing else is wanted"


def test_stable_moves_over_an_arm_of_the_server_s_own_where_the_plan_has_none() -> None:
    plan = wanted(B)
    assert next_action(plan, facts(), free) == LoadArm(BRIDGE_ARM, B)
    bridged = facts(arms={BRIDGE_ARM: B}, loaded=LOADED_AB)
    assert shown_arms(plan, bridged) == []
    assert next_action(plan, bridged, free) == StartMove(Move(BRIDGE_ARM, A, B))
    moved = facts(stable=B, arms={BRIDGE_ARM: B}, loaded=LOADED_AB)
    assert next_action(plan, moved, free) == Withdraw(BRIDGE_ARM)
    assert next_action(plan, facts(stable=B), free) is None


def test_an_arm_that_is_dropped_in_the_same_plan_still_carries_the_move() -> None:
    ready = facts(arms={"new": B}, loaded=LOADED_AB)
    assert next_action(wanted(B), ready, free) == StartMove(Move("new", A, B))
    assert shown_arms(wanted(B), ready) == []


def test_a_move_that_failed_is_not_tried_again_and_the_plan_counts_as_carried_out() -> None:
    failed = facts(stable_failure=Failure("r", B, "does not load"))
    assert next_action(wanted(B), failed, free) is None
    assert is_settled(wanted(B), failed)
    assert next_action(wanted(C), failed, free) == LoadArm(BRIDGE_ARM, C)


def test_versions_are_exchanged_in_place_only_when_no_arm_is_left() -> None:
    plan = wanted(B, resource_preserving=True)
    assert next_action(plan, facts(), free) == Replace(B)
    leaving = Leaving(ensemble_of(VOICE, "old"), C, "old", 0.0)
    assert next_action(plan, facts(leaving=(leaving,)), in_use) is None
    assert needed_versions(plan, facts())["vocoder"] == {1}


def test_an_arm_that_has_the_wanted_versions_already_carries_the_move_though_memory_is_scarce() -> None:
    bridged = facts(arms={BRIDGE_ARM: B}, loaded=LOADED_AB)
    assert next_action(wanted(B, resource_preserving=True), bridged, free) == StartMove(Move(BRIDGE_ARM, A, B))


@pytest.mark.parametrize(("version", "arms"), [(1, None), (2, ["new"]), (9, [])])
def test_tells_whose_a_version_is(version: int, arms: list[str] | None) -> None:
    assert only_of_arms(facts(arms={"new": B}), "vocoder", version) == arms


def test_versions_of_both_ends_of_a_move_are_the_voice_s_own() -> None:
    assert only_of_arms(facts(arms={"new": B}, move=Move("new", A, B)), "vocoder", 2) is None


def carry_out(action: object, now: Facts) -> Facts:
    """What an action does that succeeds, as the server does it."""
    arms, leaving = dict(now.arms), now.leaving
    if isinstance(action, LoadArm):
        assert action.arm not in arms
        arms[action.arm] = action.versions
        return replace(now, arms=arms, loaded=_with(now, action.versions))
    if isinstance(action, Withdraw):
        gone = Leaving(ensemble_of(VOICE, action.arm), arms.pop(action.arm), action.arm, 0.0)
        return replace(now, arms=arms, leaving=(*leaving, gone))
    if isinstance(action, StartMove):
        assert arms[action.move.bridge] == action.move.new
        return replace(now, move=action.move)
    if isinstance(action, DropMove):
        return replace(now, move=None)
    if isinstance(action, Swap):
        old = Leaving(VOICE, now.stable, None, 0.0)
        return replace(now, stable=action.move.new, move=None, leaving=(*leaving, old))
    if isinstance(action, Replace):
        assert not arms
        return facts(stable=action.versions, loaded={s: frozenset({v}) for s, v in action.versions.items()})
    assert isinstance(action, Release)
    return replace(now, leaving=tuple(one for one in leaving if one != action.leaving))


def _with(now: Facts, versions: Versions) -> dict[str, frozenset[int]]:
    return {stage: now.loaded[stage] | {version} for stage, version in versions.items()}


VERSIONS = st.sampled_from([A, B, C, {**B, "acoustic": 3}])
PLANS = st.none() | st.builds(
    lambda stable, arms, alone: wanted(stable, arms={} if alone else arms, resource_preserving=alone),
    VERSIONS,
    st.dictionaries(st.sampled_from(["x", "y", "previous"]), VERSIONS),
    st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(plans=st.lists(st.tuples(PLANS, st.integers(0, 6)), max_size=5), last=PLANS, uses=st.data())
def test_whatever_is_wanted_on_the_way_the_last_plan_is_carried_out(
    plans: list[tuple[PlannedVoice | None, int]], last: PlannedVoice | None, uses: st.DataObject
) -> None:
    now = facts()
    for plan, steps in plans:
        for _ in range(steps):
            action = next_action(plan, now, lambda ensemble, versions: uses.draw(st.booleans()))
            if action is not None:
                now = carry_out(action, now)
            users = [now.stable, *now.arms.values(), *(one.versions for one in now.leaving)]
            needed = needed_versions(plan, now)
            assert all(version in needed[stage] for versions in users for stage, version in versions.items())
    for _ in range(60):
        action = next_action(last, now, free)
        if action is None:
            break
        now = carry_out(action, now)
    assert is_settled(last, now)
    assert not now.leaving
    if last is not None:
        assert (now.stable, now.arms) == (last.stable, last.arms)
    assert next_action(last, now, free) is None
