"""Arms on one server: the plan's rows and routes, what fails, and what an engine's end means."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.rollout.pins import pin_versions
from voxrepo.rollout.plan import Plan, PlannedVoice, write_json
from voxrepo.rollout.route import Route
from voxrepo.supervisor.arm_work import Spoiled
from voxrepo.supervisor.arms import SUSPECT_S, UNLOAD_LIMIT_S
from voxrepo.supervisor.stub_watch import Stub
from voxrepo_contract.errors import Unavailable

from .arm_scene import A, B, Scene


def test_an_arm_gets_its_row_and_its_route_only_when_it_is_ready(scene: Scene) -> None:
    scene.is_slow = True
    scene.plan(arms={"new": B}, route=Route(rollout="r", policy="canary", weights={"new": 10.0}))
    scene.step(3)
    assert scene.done == ["load new"]
    assert (set(scene.table.voices), scene.table.routes) == ({"one"}, {})
    assert (scene.status.generation, scene.status.voices["one"].arms["new"].state) == (0, "loading")
    scene.is_slow = False
    scene.step()
    table = scene.table
    row = table.voices["one.new"]
    assert (row.arm, row.voice, row.versions, row.ensemble) == ("new", "one", B, "one.new")
    assert table.routes["one"].weights == {"new": 10.0}
    assert table.engine_calls["one.new"] == table.engine_calls["one"]
    assert table.voices["one"].versions == A
    assert scene.status.voices["one"].arms["new"].state == "ready"


def test_the_plan_counts_as_carried_out_once_the_edge_goes_by_the_table(scene: Scene) -> None:
    scene.is_behind = True
    scene.plan(arms={"new": B})
    scene.step(10)
    assert (scene.status.generation, scene.status.voices["one"].arms["new"].state) == (0, "loading")
    scene.is_behind = False
    scene.step()
    assert (scene.status.generation, scene.status.voices["one"].arms["new"].state) == (1, "ready")
    scene.is_behind = True  # an edge process starts anew
    scene.step(5)
    assert scene.status.voices["one"].arms["new"].state == "ready"


def test_new_weights_only_change_the_table(scene: Scene) -> None:
    scene.ready_arm()
    before = scene.table
    scene.plan(arms={"new": B}, route=Route(rollout="r", policy="canary", weights={"new": 60.0}))
    scene.step()
    after = scene.table
    assert after.routes["one"].weights == {"new": 60.0}
    assert (after.voices, after.generation) == (before.voices, before.generation + 1)
    assert scene.done == ["load new"]
    assert scene.status.generation == 2


def test_a_plan_that_cannot_be_read_leaves_everything_as_it_is(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.ready_arm()
    scene.folder.plan_file.write_text('{"generation": -1}', encoding="utf-8")
    scene.step(5)
    assert "one.new" in scene.table.voices
    assert sum("plan of the rollouts is not followed" in line for line in caplog.messages) == 1


def test_an_arm_that_fails_is_told_with_the_reason_and_not_tried_again(scene: Scene) -> None:
    scene.problems["load new"] = Unavailable("silent")
    scene.plan(arms={"new": B}, route=Route(rollout="r", policy="canary", weights={"new": 10.0}))
    scene.step(10)
    assert scene.done == ["load new"]
    arm = scene.status.voices["one"].arms["new"]
    assert (arm.state, arm.reason, scene.status.generation) == ("failed", "silent", 1)
    assert (set(scene.table.voices), scene.table.routes) == ({"one"}, {})
    assert [line.reason for line in scene.board.state.arms] == ["silent"]


def test_an_arm_is_unloaded_when_its_last_request_has_ended_or_took_too_long(scene: Scene) -> None:
    scene.ready_arm()
    scene.uses = {"one.new|text_frontend=1,acoustic=1,vocoder=2"}
    scene.plan()
    scene.step(5)
    assert set(scene.table.voices) == {"one"}
    assert scene.status.generation == 2, "no new request can reach it"
    assert scene.status.voices["one"].arms["new"].state == "unloading"
    assert scene.done == ["load new"]
    scene.uses = set()
    scene.step(2)
    assert scene.done == ["load new", "release new"]
    assert scene.status.voices["one"].arms == {}
    scene.uses = {"one.new|text_frontend=1,acoustic=1,vocoder=2"}
    scene.plan(arms={"new": B})
    scene.step(2)
    scene.plan()
    scene.step(2)
    assert scene.done[-1] == "load new"
    scene.step(2, seconds=UNLOAD_LIMIT_S)
    assert scene.done[-1] == "release new"


def test_a_promotion_serves_by_the_arm_while_the_voice_gets_its_versions(scene: Scene) -> None:
    scene.ready_arm()
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B, arms={"new": B})
    scene.step(3)
    row = scene.table.voices["one"]
    assert (row.versions, row.ensemble, row.arm) == (B, "one.new", "stable")
    assert scene.status.voices["one"].stable == A
    assert scene.done == ["load new"]
    scene.uses = set()
    scene.step(4)
    row = scene.table.voices["one"]
    assert (row.versions, row.ensemble) == (B, "one")
    assert scene.status.voices["one"].stable == B
    assert scene.done == ["load new", "swap", "release None"]
    assert [voice.spec.versions for voice in scene.moved] == [B]
    assert scene.board.state.models[0].versions == B


def test_a_promotion_that_fails_leaves_the_old_versions_and_the_reason(scene: Scene) -> None:
    scene.ready_arm()
    scene.problems["swap"] = Unavailable("no")
    scene.plan(B, arms={"new": B})
    scene.step(5)
    row = scene.table.voices["one"]
    assert (row.versions, row.ensemble) == (A, "one")
    voice = scene.status.voices["one"]
    assert (voice.stable, voice.reason, scene.status.generation) == (A, "no", 2)
    assert not scene.arms.needs_fresh_engine


def test_a_voice_without_versions_that_work_asks_for_a_fresh_engine(scene: Scene) -> None:
    scene.ready_arm()
    scene.problems["swap"] = Spoiled("neither")
    scene.plan(B, arms={"new": B})
    scene.step(5)
    assert scene.arms.needs_fresh_engine


def test_an_engine_that_ends_while_an_arm_is_loaded_ends_because_of_it(scene: Scene) -> None:
    scene.is_slow = True
    scene.plan(arms={"new": B})
    scene.step(2)
    scene.arms.engine_ended(scene.now_s)
    scene.start_engine()
    scene.is_slow = False
    scene.step(5)
    arm = scene.status.voices["one"].arms["new"]
    assert (arm.state, arm.reason) == ("failed", "the engine ended while this was loaded")
    assert scene.done == ["load new"]


@pytest.mark.parametrize(
    ("after_s", "was_expected", "state"),
    [(SUSPECT_S / 2, False, "failed"), (SUSPECT_S / 2, True, "ready"), (SUSPECT_S * 2, False, "ready")],
)
def test_an_engine_that_ends_right_after_an_arm_was_loaded_ends_because_of_it(
    scene: Scene, after_s: float, was_expected: bool, state: str
) -> None:
    scene.ready_arm()
    scene.now_s += after_s
    scene.arms.engine_ended(scene.now_s, was_expected=was_expected)
    scene.board.publish()
    assert set(scene.table.voices) == ({"one"} if state == "failed" else {"one", "one.new"})
    scene.step()
    assert scene.status.voices["one"].arms["new"].state == ("failed" if state == "failed" else "loading")
    scene.start_engine()
    scene.step(3)
    assert scene.status.voices["one"].arms["new"].state == state
    assert scene.done == (["load new"] if state == "failed" else ["load new", "load new"])


def test_a_promotion_that_the_end_of_the_engine_cut_short_is_made_again(scene: Scene) -> None:
    scene.ready_arm()
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B, arms={"new": B})
    scene.step(30, seconds=1.0)
    scene.arms.engine_ended(scene.now_s)
    scene.board.publish()
    assert scene.table.voices["one"].versions == A
    scene.start_engine()
    scene.uses = set()
    scene.step(6)
    assert scene.status.voices["one"].stable == B


def test_the_death_of_an_arm_s_process_drops_the_arm_only(scene: Scene) -> None:
    scene.ready_arm()
    stubs = {version: Stub(version, 0.0, "one.vocoder", version=version) for version in (1, 2)}
    assert [scene.arms.fate(stubs[version]) for version in (1, 2)] == ["cure", "arm"]
    assert scene.arms.fate(Stub(3, 0.0, "one.acoustic", version=1)) == "cure"
    assert scene.arms.fate(Stub(3, 0.0, "other", version=1)) == "cure"
    scene.uses = {"one.new|text_frontend=1,acoustic=1,vocoder=2"}  # these fail anyway
    scene.arms.died(stubs[2], "signal 9")
    assert (set(scene.table.voices), scene.table.routes) == ({"one"}, {})
    assert scene.arms.fate(stubs[2]) == "ignore"
    scene.step()
    assert scene.done == ["load new"], "the edge is told first"
    scene.step(3, seconds=1.0)
    assert scene.done == ["load new", "release new"]
    arm = scene.status.voices["one"].arms["new"]
    assert (arm.state, arm.reason) == ("failed", "the process of its vocoder version 2 died (signal 9)")


def test_a_cure_of_the_voice_brings_its_arms_back_and_is_not_held_against_them(scene: Scene) -> None:
    scene.ready_arm()
    assert {name: spec.versions for name, spec in scene.arms.cured_with(["one", "two"]).items()} == {"one.new": B}
    scene.arms.publisher(["one"])()
    assert "versions: 2" in (scene.layout.model_repository / "one.vocoder" / "config.pbtxt").read_text()
    scene.arms.lost({"one.new": "silent"})
    assert "one.new" not in scene.table.voices
    scene.step()
    assert scene.status.voices["one"].arms["new"].reason == "silent"


def test_what_a_cure_disturbs_is_tried_again(scene: Scene) -> None:
    scene.problems["load new"] = Unavailable("unloaded under its hands")
    scene.is_slow = True
    scene.plan(arms={"new": B})
    scene.step(2)
    scene.arms.cured_with(["one"])
    scene.is_slow = False
    scene.problems = {}
    scene.step(3)
    assert scene.done == ["load new", "load new"]
    assert scene.status.voices["one"].arms["new"].state == "ready"


def test_a_voice_that_is_given_up_takes_its_arms_along(scene: Scene) -> None:
    scene.ready_arm()
    scene.board.drop({"one": "its stubs died"})
    scene.step(2)
    voice = scene.status.voices["one"]
    assert voice.arms["new"].state == "failed"
    assert "not served" in voice.arms["new"].reason
    scene.board.publish()
    assert scene.table.voices == {}
    assert scene.status.generation == 1


def test_a_voice_that_is_not_here_has_its_arms_refused(scene: Scene) -> None:
    absent = PlannedVoice(rollout="r", stable=A, arms={"new": B})
    write_json(scene.folder.plan_file, Plan(generation=7, voices={"absent": absent}))
    scene.step()
    arm = scene.status.voices["absent"].arms["new"]
    assert (arm.state, arm.reason, scene.status.generation) == ("failed", "the voice itself is not served here", 7)


def test_arms_are_gone_with_the_rollout(scene: Scene, tmp_path: Path) -> None:
    scene.ready_arm()
    write_json(scene.folder.plan_file, Plan(generation=2))
    scene.step(4)
    assert (set(scene.table.voices), scene.table.routes) == ({"one"}, {})
    assert scene.done == ["load new", "release new"]
    assert scene.released == [("one.vocoder", {2})]
    assert (scene.status.generation, scene.status.voices) == (2, {})


def test_the_last_stub_of_a_rollout_that_is_gone_is_no_death(scene: Scene) -> None:
    scene.problems["load new"] = Unavailable("the audio is not a number")
    scene.plan(arms={"new": B})
    scene.step(3)
    assert scene.status.voices["one"].arms["new"].state == "failed"
    assert scene.released == [("one.vocoder", {2})], "its end is expected"
    write_json(scene.folder.plan_file, Plan(generation=2))
    scene.step(2)
    assert scene.arms.fate(Stub(2, 0.0, "one.vocoder", version=2)) == "ignore"
    assert scene.arms.fate(Stub(1, 0.0, "one.vocoder", version=1)) == "cure"
    assert scene.arms.fate(Stub(4, 0.0, "one.vocoder")) == "cure", "it may be anybody's"


def test_a_voice_that_left_the_plan_gets_what_its_file_pins(scene: Scene) -> None:
    scene.ready_arm()
    pin_versions(scene.layout, "one", B)
    write_json(scene.folder.plan_file, Plan(generation=9))
    scene.step(8)
    assert scene.table.voices["one"].versions == B
    assert (set(scene.table.voices), scene.status.generation) == ({"one"}, 9)
    assert scene.done == ["load new", "swap", "release None", "release new"]
    assert scene.arms.is_busy is False


def test_a_move_that_the_rollout_took_back_meanwhile_is_taken_back(scene: Scene) -> None:
    scene.ready_arm()
    scene.uses = {"one|text_frontend=1,acoustic=1,vocoder=1"}
    scene.plan(B, arms={"new": B})
    scene.step(2)
    write_json(scene.folder.plan_file, Plan(generation=9))
    scene.step(2)
    row = scene.table.voices["one"]
    assert (row.versions, row.ensemble) == (A, "one")
    scene.step(10)
    assert scene.done == ["load new", "release new"]
    assert scene.table.voices["one"].versions == A
    assert scene.status.generation == 9


def test_versions_that_a_file_pins_and_that_do_not_work_are_given_up(scene: Scene) -> None:
    scene.plan()
    scene.step()
    scene.problems["load stable"] = Unavailable("silent")
    pin_versions(scene.layout, "one", B)
    write_json(scene.folder.plan_file, Plan(generation=9))
    scene.step(8)
    assert scene.done == ["load stable"], "tried once"
    assert scene.table.voices["one"].versions == A
    assert scene.status.generation == 9


def test_a_file_that_somebody_edits_counts_from_the_next_start_unless_a_rollout_was_missed(scene: Scene) -> None:
    other = PlannedVoice(rollout="r", stable=A)
    write_json(scene.folder.plan_file, Plan(generation=1, voices={"other": other}))
    scene.step()
    pin_versions(scene.layout, "one", B)
    write_json(scene.folder.plan_file, Plan(generation=2))
    scene.step(4)
    assert (scene.done, scene.table.voices["one"].versions) == ([], A)
    write_json(scene.folder.plan_file, Plan(generation=4, voices={"other": other}))
    scene.step(seconds=20.0)
    scene.step(8)
    assert scene.table.voices["one"].versions == B


def test_a_voice_whose_file_cannot_be_read_keeps_its_versions(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.plan()
    scene.step()
    scene.layout.voice_file("one").write_text("voice: [")
    write_json(scene.folder.plan_file, Plan(generation=9))
    scene.step(4)
    assert (scene.done, scene.status.generation) == ([], 9)
    assert "one keeps its versions" in caplog.text
