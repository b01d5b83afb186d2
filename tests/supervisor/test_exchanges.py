"""Versions that are exchanged in place, since the memory does not suffice for both."""

from __future__ import annotations

import pytest

from voxrepo.rollout.plan import PlannedVoice
from voxrepo.supervisor.arms import EXCHANGE_DRAIN_S
from voxrepo.supervisor.stub_watch import Stub

from .arm_scene import A, B, Scene


def test_requests_that_have_begun_end_before_versions_are_exchanged_in_place_and_later_ones_wait(scene: Scene) -> None:
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B, resource_preserving=True)
    scene.step(2)
    assert scene.table.draining == ["one"]
    assert scene.arms.held == set(), "what has begun needs further calls"
    scene.step(5)
    assert scene.done == []
    scene.uses = set()
    scene.step(2)
    assert scene.arms.held == {"one"}
    assert scene.done == [], "the edge does not hold it yet"
    scene.board.update(held=["one"])
    scene.step()
    assert (scene.done, scene.arms.held) == (["replace"], {"one"})
    scene.step(2)
    assert scene.arms.held == set()
    assert scene.table.draining == []
    assert scene.status.voices["one"].stable == B


def test_what_does_not_end_in_time_does_not_keep_versions_from_being_exchanged(scene: Scene) -> None:
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B, resource_preserving=True)
    scene.step(2)
    scene.now_s += EXCHANGE_DRAIN_S
    scene.step()
    assert scene.arms.held == {"one"}
    scene.board.update(held=["one"])
    scene.step()
    assert scene.done == ["replace"]


def test_a_voice_whose_requests_wait_goes_before_what_is_done_for_other_voices(scene: Scene) -> None:
    scene.add_voice("two")
    scene.uses = {"two|text_frontend=1,acoustic=1,vocoder=1"}
    exchange = PlannedVoice(rollout="s", stable=B, resource_preserving=True)
    scene.plan(voices={"two": exchange})
    scene.step(2)
    assert scene.table.draining == ["two"]
    scene.plan(voices={"one": PlannedVoice(rollout="r", stable=A, arms={"new": B}), "two": exchange})
    scene.step(10)
    assert (scene.table.draining, scene.done) == (["two"], [])
    scene.uses = set()
    scene.step(2)
    scene.board.update(held=["two"])
    scene.step()
    assert scene.done == ["replace"]
    scene.board.update(held=[])
    scene.step(3)
    assert scene.done == ["replace", "load new"]
    assert (scene.table.draining, sorted(scene.table.voices)) == ([], ["one", "one.new", "two"])


@pytest.mark.parametrize(
    "other",
    [
        PlannedVoice(rollout="s", stable=A, arms={"new": B}),
        PlannedVoice(rollout="s", stable=B, resource_preserving=True),
    ],
    ids=["arm", "exchange"],
)
def test_one_voice_drains_at_a_time_and_nothing_else_is_begun_with_it(scene: Scene, other: PlannedVoice) -> None:
    scene.add_voice("two")
    scene.uses = {f"{voice}|text_frontend=1,acoustic=1,vocoder=1" for voice in ("one", "two")}
    scene.plan(voices={"one": PlannedVoice(rollout="r", stable=B, resource_preserving=True), "two": other})
    scene.step(10)
    assert (scene.table.draining, scene.done) == (["one"], [])


def test_no_voice_is_drained_while_something_is_done_for_another(scene: Scene) -> None:
    scene.add_voice("two")
    scene.is_slow = True
    scene.plan(
        voices={
            "one": PlannedVoice(rollout="r", stable=A, arms={"new": B}),
            "two": PlannedVoice(rollout="s", stable=B, resource_preserving=True),
        }
    )
    scene.step(300)
    assert (scene.done, scene.table.draining) == (["load new"], [])
    scene.is_slow = False
    scene.step(3)
    assert scene.table.draining == ["two"]


def test_a_voice_that_is_recovered_while_it_drains_is_drained_anew_afterwards(scene: Scene) -> None:
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B, resource_preserving=True)
    scene.step(2)
    assert scene.table.draining == ["one"]
    for _ in range(2):
        scene.now_s += EXCHANGE_DRAIN_S
        scene.arms.step(scene.now_s, busy={"one"})
    assert (scene.table.draining, scene.arms.held) == ([], set())
    scene.step(2)
    assert (scene.table.draining, scene.arms.held) == (["one"], set()), "what has begun since then has its time, too"


def test_versions_are_not_exchanged_before_every_edge_is_known_to_hold_the_voice(scene: Scene) -> None:
    scene.plan(B, resource_preserving=True)
    scene.step(2)
    scene.board.update(held=["one"])
    scene.is_behind = True
    scene.step(200)
    assert scene.done == []
    scene.is_behind = False
    scene.step()
    assert scene.done == ["replace"]


def test_only_the_stages_that_are_exchanged_may_die_of_it(scene: Scene) -> None:
    scene.is_slow = True
    scene.plan(B, resource_preserving=True)
    scene.step(3)
    scene.board.update(held=["one"])
    scene.step()
    assert scene.done == ["replace"]
    stubs = [
        Stub(1, 0.0, "one.vocoder", version=1),
        Stub(2, 0.0, "one.vocoder"),
        Stub(3, 0.0, "one.acoustic", version=1),
    ]
    assert [scene.arms.fate(stub) for stub in stubs] == ["ignore", "ignore", "cure"]


def test_a_voice_that_an_arm_serves_for_keeps_its_places_in_the_engine(scene: Scene) -> None:
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B)
    scene.step(4)
    table = scene.table
    assert table.voices["one"].ensemble == "one.stable"
    assert table.engine_calls["one.stable"] == table.engine_calls["one"]
    assert table.engine_pools
    assert table.pool_of("one.stable") == "one"
