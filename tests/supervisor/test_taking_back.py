"""Promotions that are taken back on one server: within a move, after the voice was given up, after a crash."""

from __future__ import annotations

import pytest

from voxrepo.supervisor.arm_record import RETURN_LIMIT_S
from voxrepo.supervisor.arms import SUSPECT_S
from voxrepo_contract.errors import Unavailable

from .arm_scene import A, B, Scene

STABLE_A = "one|text_frontend=1,acoustic=1,vocoder=1"


def test_an_abort_while_an_arm_serves_for_the_voice_brings_the_old_versions_back_at_once(scene: Scene) -> None:
    scene.ready_arm()
    scene.uses = {STABLE_A}  # a long stream
    scene.plan(B, arms={"new": B, "previous": A})
    scene.step(2)
    assert scene.table.voices["one"].versions == B
    scene.plan(A, arms={"previous": A})
    scene.step(2)
    row = scene.table.voices["one"]
    assert (row.versions, row.ensemble) == (A, "one")
    scene.uses = set()
    scene.step(5)
    assert "swap" not in scene.done
    assert scene.status.voices["one"].stable == A
    assert set(scene.table.voices) == {"one", "one.previous"}


# ---- voices that are given up


def promoted(scene: Scene) -> None:
    scene.ready_arm()
    scene.plan(B, arms={"new": B, "previous": A})
    scene.step(8)
    assert scene.status.voices["one"].stable == B


def test_a_voice_given_up_with_promoted_versions_is_tried_with_those_that_are_wanted_again(scene: Scene) -> None:
    promoted(scene)
    scene.board.drop({"one": "the stubs of one.vocoder died 5 times within 60 s"})
    scene.board.publish()
    scene.step(3)
    assert scene.tried == [], "nothing else is wanted of it"
    scene.is_trying = True
    scene.plan(A, arms={"previous": A})
    scene.step(3)
    assert scene.tried == [], "an attempt with the same versions is under way"
    scene.is_trying = False
    scene.step(10)
    assert scene.tried == [("one", A)], "once"
    # what the engine reads by then has no version that is not wanted
    scene.arms.publisher(["one"])()
    config = (scene.layout.model_repository / "one.vocoder" / "config.pbtxt").read_text()
    assert "versions: 1" in config
    assert "versions: 2" not in config
    scene.come_back()
    scene.step(3)
    assert scene.status.voices["one"].stable == A
    assert scene.table.voices["one"].versions == A
    assert {model.name: model.versions for model in scene.board.state.models if model.name == "one"} == {"one": A}


def test_a_voice_that_did_not_load_with_promoted_versions_is_tried_with_those_of_the_file(scene: Scene) -> None:
    promoted(scene)
    scene.board.drop({"one": "it died"})
    scene.plan(voices={})
    scene.step(3)
    assert scene.tried == [("one", A)]


def test_versions_that_are_not_there_any_more_are_not_tried(scene: Scene) -> None:
    promoted(scene)
    scene.board.drop({"one": "it died"})
    (scene.layout.model_repository / "one.vocoder" / "1" / "stage.yaml").unlink()
    scene.plan(A)
    scene.step(5)
    assert scene.tried == []


# ---- engines that end


def test_a_bridge_that_takes_the_engine_down_is_not_loaded_again(scene: Scene) -> None:
    scene.uses = {STABLE_A}
    scene.plan(B)
    for _ in range(5):
        scene.step(3)
        scene.now_s += SUSPECT_S / 3
        scene.end_engine()
        scene.start_engine()
    assert scene.done.count("load stable") == 1
    assert "the engine ended" in scene.status.voices["one"].reason
    assert scene.table.voices["one"].versions == A


def test_an_arm_that_carries_a_move_and_takes_the_engine_down_is_not_tried_as_a_bridge(scene: Scene) -> None:
    scene.uses = {STABLE_A}
    scene.plan(B, arms={"new": B})
    scene.step(3)
    scene.end_engine()
    scene.start_engine()
    scene.step(10)
    assert scene.done == ["load new"]
    assert "the engine ended" in scene.status.voices["one"].reason


def test_arms_that_the_engine_will_have_again_keep_their_rows_and_are_held(scene: Scene) -> None:
    scene.ready_arm()
    scene.end_engine(was_expected=True)
    assert scene.table.held == ["one.new"]
    assert "one.new" in scene.table.voices
    assert scene.table.routes == {}, "no new request is sent to it"
    assert scene.status.voices["one"].arms["new"].state == "loading"
    scene.start_engine()
    scene.is_slow = True
    scene.step(3)
    assert (scene.table.held, scene.done) == (["one.new"], ["load new", "load new"])
    scene.is_slow = False
    scene.step(2)
    assert (scene.table.held, set(scene.table.voices)) == ([], {"one", "one.new"})
    assert scene.table.routes["one"].weights == {"new": 10.0}


@pytest.mark.parametrize("why", ["late", "blamed", "unwanted", "failed"])
def test_arms_that_do_not_come_back_are_not_waited_for(scene: Scene, why: str) -> None:
    scene.ready_arm()
    if why != "blamed":
        scene.now_s += SUSPECT_S + 1
    scene.end_engine(was_expected=why == "failed")
    if why != "blamed":
        assert scene.table.held == ["one.new"]
    if why == "late":
        scene.now_s += RETURN_LIMIT_S
    elif why == "unwanted":
        scene.plan()
    elif why == "failed":
        scene.problems["load new"] = Unavailable("no memory")
        scene.start_engine()
    scene.step(3)
    assert (scene.table.held, set(scene.table.voices)) == ([], {"one"})
