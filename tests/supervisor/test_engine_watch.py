"""What is decided from what is seen; the engine and its stubs are played."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.repository.tiny import make_model, make_voice, voice_spec
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.check import take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import VoiceSpec
from voxrepo.supervisor import engine_watch
from voxrepo.supervisor.arm_guard import Fate, NoArms
from voxrepo.supervisor.engine_watch import EngineWatch, WatchLimits
from voxrepo.supervisor.mending import Mending
from voxrepo.supervisor.stub_watch import Stub, StubRegister

MIB = 2**20


class Scene:
    """An engine as the watch sees it."""

    def __init__(self) -> None:
        self.stubs: list[Stub] = []
        self.hangs = False
        self.memory_mib = 100
        self.runs: list[FakeRun] = []
        self.dismissed: list[str] = []
        self.started = 0

    def die(self, model: str) -> None:
        """All stubs of a model die."""
        self.stubs = [stub for stub in self.stubs if stub.model != model]

    def end_cure(self, problem: str | None = None) -> None:
        """The last cure ends, with new stubs."""
        run = self.runs[-1]
        run.problem, run.is_done, run.is_loaded = problem, True, problem is None
        for model in run.mending.models:
            self.started += 1
            self.stubs.append(Stub(100 + self.started, 0.0, model))


class FakeRun:
    def __init__(
        self,
        target: str,
        mending: Mending,
        is_held: Callable[[], bool],
        load_timeout_s: float,
        publish: Callable[[], None],
        layout: Layout | None,
        is_given_up: Callable[[], bool],
    ) -> None:
        self.mending = mending
        self.publish = publish
        self.layout = layout
        self.is_given_up = is_given_up
        self.lost_arms: dict[str, str] = {}
        self.is_held = is_held
        self.started_s = 0.0
        self.is_done = self.is_loaded = False
        self.problem: str | None = None

    def take_lost(self) -> dict[str, str]:
        lost, self.lost_arms = self.lost_arms, {}
        return lost


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene()

    class FakePulse:
        silence_s = 10.0

        def __init__(self, target: str, patience_s: float) -> None:
            pass

        def step(self, now_s: float) -> bool:
            return scene.hangs

        def close(self) -> None:
            pass

    class FakeStubs:
        def __init__(self, pid: int, identities: Path) -> None:
            self.register = StubRegister()

        def look(self, watched: set[str], now_s: float, *, search: bool = False) -> list[Stub]:
            return self.register.observe(scene.stubs, watched)

    def start(*arguments: object) -> FakeRun:
        scene.runs.append(FakeRun(*arguments))  # type: ignore[arg-type]
        return scene.runs[-1]

    monkeypatch.setattr(engine_watch, "Pulse", FakePulse)
    monkeypatch.setattr(engine_watch, "StubWatch", FakeStubs)
    monkeypatch.setattr(engine_watch, "MendingRun", start)
    monkeypatch.setattr(engine_watch, "dismiss", lambda target, models: scene.dismissed.extend(models))
    monkeypatch.setattr(engine_watch, "held_bytes", lambda pid: scene.memory_mib * MIB)
    monkeypatch.setattr(engine_watch, "close_to_others", lambda workspace: None)
    return scene


@pytest.fixture
def watch(scene: Scene, layout: Layout) -> EngineWatch:
    for name in ("one", "two"):
        make_voice(layout, name)
    make_model(layout)
    inventory = take_inventory(layout)
    models = [f"{voice}.{stage}" for voice in ("one", "two") for stage in ("text_frontend", "acoustic", "vocoder")]
    scene.stubs = [Stub(pid, 0.0, model) for pid, model in enumerate([*models, "echo", "callable"], start=10)]
    limits = WatchLimits(hang_timeout_s=10.0, load_timeout_s=60.0, memory_bytes=200 * MIB)
    watch = EngineWatch(Workspace(Path("/nowhere"), "voxrepo-x-"), limits, lambda subjects: True, layout=layout)
    watch.engine_started(1, inventory, {"one", "two", "echo"}, 0.0)
    return watch


def test_an_engine_that_is_well_is_left_alone(watch: EngineWatch, scene: Scene) -> None:
    assert [watch.step(tenth / 10) for tenth in range(100)] == ["well"] * 100
    assert watch.held == set()
    assert scene.runs == []


def test_a_dead_stub_has_its_model_cured_and_its_voice_held_meanwhile(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    assert watch.step(1.0) == "well"
    (run,) = scene.runs
    assert run.mending.models == ("one.vocoder",)
    assert watch.held == {"one"}
    assert watch.stub_restarts == 1
    scene.end_cure()
    assert watch.step(2.0) == "well"
    assert watch.held == set()
    assert dict(watch.reloads) == {"one.vocoder": 1, "one": 1}
    assert len(scene.runs) == 1


def test_a_cure_minds_other_servers_of_the_root_and_is_given_up_with_its_engine(
    watch: EngineWatch, scene: Scene, layout: Layout
) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    (run,) = scene.runs
    assert (run.layout, run.is_given_up()) == (layout, False)
    watch.engine_ended()
    assert run.is_given_up()


def test_a_voice_serves_as_soon_as_it_is_loaded(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    scene.runs[-1].is_loaded = True
    assert watch.step(1.5) == "well"
    assert watch.held == set()
    assert dict(watch.reloads) == {"one.vocoder": 1, "one": 1}
    scene.end_cure()
    assert watch.step(2.0) == "well"
    assert dict(watch.reloads) == {"one.vocoder": 1, "one": 1}


def test_a_voice_that_does_not_speak_once_loaded_costs_the_engine(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    scene.runs[-1].is_loaded = True
    watch.step(1.5)
    scene.end_cure("silent")
    scene.runs[-1].is_loaded = True
    assert watch.step(2.0) == "kill"


def test_a_death_while_a_voice_is_tried_out_is_cured_at_once(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    scene.runs[-1].is_loaded = True
    watch.step(1.5)
    scene.die("one.acoustic")
    assert watch.step(1.7) == "well"
    assert [run.mending.models for run in scene.runs] == [("one.vocoder",), ("one.acoustic",)]
    assert watch.held == {"one"}


def test_a_cure_asks_whether_its_own_voices_are_held(watch: EngineWatch, scene: Scene) -> None:
    asked: list[object] = []

    def is_held(subjects: object) -> bool:
        asked.append(set(subjects))  # type: ignore[call-overload]
        return True

    watch._is_held = is_held
    scene.die("one.vocoder")
    watch.step(1.0)
    assert scene.runs[-1].is_held()
    assert asked == [{"one"}]


def test_the_unloading_of_the_old_stubs_is_no_death(watch: EngineWatch, scene: Scene) -> None:
    scene.stubs.append(Stub(99, 0.0, "one.vocoder"))
    watch.step(0.5)
    scene.die("one.vocoder")  # both instances
    watch.step(1.0)
    watch.step(1.2)
    scene.end_cure()
    watch.step(2.0)
    assert len(scene.runs) == 1
    assert watch.stub_restarts == 2


def test_a_stub_that_dies_during_a_cure_is_cured_next(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    scene.die("one.acoustic")
    scene.die("two.acoustic")
    watch.step(1.2)
    assert len(scene.runs) == 1
    assert watch.held == {"one", "two"}
    scene.end_cure("one.acoustic is gone")
    assert watch.step(2.0) == "well"
    assert scene.runs[1].mending.models == ("one.acoustic", "one.vocoder", "two.acoustic")
    scene.end_cure()
    watch.step(3.0)
    assert watch.held == set()


def test_a_cure_that_fails_costs_the_engine(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    scene.end_cure("no answer")
    assert watch.step(2.0) == "kill"


def test_stubs_that_die_again_and_again_are_given_up_and_others_go_on(watch: EngineWatch, scene: Scene) -> None:
    for second in (-1.0, 0.0, 1.0, 2.0):
        scene.die("one.vocoder")
        watch.step(second)
        scene.end_cure()
        watch.step(second + 0.5)
    scene.die("one.vocoder")
    assert watch.step(3.0) == "well"
    given_up = watch.take_given_up()
    assert set(given_up) == {"one"}
    assert "one.vocoder died 5 times within 60 s" in given_up["one"]
    assert watch.take_given_up() == {}
    assert scene.dismissed == ["one", "one.acoustic", "one.text_frontend", "one.vocoder"]
    assert watch.held == set()
    assert len(scene.runs) == 4
    # its other stages end now, which is no death
    for stage in ("text_frontend", "acoustic"):
        scene.die(f"one.{stage}")
    watch.step(4.0)
    scene.die("two.vocoder")
    watch.step(5.0)
    assert scene.runs[-1].mending.models == ("two.vocoder",)


def give_up_one(watch: EngineWatch, scene: Scene, from_s: float) -> str:
    """Let the stubs of a stage die too often; the reason that is told."""
    for death in range(5):
        scene.die("one.vocoder")
        watch.step(from_s + death)
        if death < 4:
            scene.end_cure()
            watch.step(from_s + death + 0.5)
    return watch.take_given_up()["one"]


def test_stages_that_are_hopeless_together_are_given_up_and_tried_again_as_one(
    watch: EngineWatch, scene: Scene
) -> None:
    for death in range(5):
        for stage in ("acoustic", "vocoder"):
            scene.die(f"one.{stage}")
        watch.step(float(death))
        if death < 4:
            scene.end_cure()
            watch.step(death + 0.5)
    assert set(watch.take_given_up()) == {"one"}
    runs = len(scene.runs)
    watch.step(305.0)
    scene.end_cure()
    for second in range(306, 2000):
        watch.step(float(second))
    assert len(scene.runs) == runs + 1
    assert set(watch.take_back().voices) == {"one"}


def test_what_was_given_up_is_tried_again_and_comes_back_with_all_its_stages(watch: EngineWatch, scene: Scene) -> None:
    assert "tried again after 5 minutes" in give_up_one(watch, scene, 0.0)
    scene.stubs = [stub for stub in scene.stubs if not stub.model.startswith("one.")]
    assert watch.step(300.0) == "well"
    assert len(scene.runs) == 4
    watch.step(305.0)
    assert sorted(scene.runs[4].mending.models) == ["one.acoustic", "one.text_frontend", "one.vocoder"]
    assert scene.runs[4].mending.ensembles == ("one",)
    assert watch.held == set()
    # a cure of another voice does not wait for it
    scene.die("two.vocoder")
    watch.step(305.5)
    assert scene.runs[5].mending.models == ("two.vocoder",)
    scene.end_cure()
    scene.runs.pop()
    scene.end_cure()
    assert watch.step(306.0) == "well"
    back = watch.take_back()
    assert (set(back.voices), set(back.models)) == ({"one"}, set())
    assert not watch.take_back().voices
    # and it is looked after again, from this moment on
    scene.die("one.acoustic")
    watch.step(307.0)
    assert scene.runs[-1].mending.models == ("one.acoustic",)
    assert watch.held == {"one"}


def test_attempts_that_fail_are_made_less_and_less_often_and_cost_nobody_anything(
    watch: EngineWatch, scene: Scene
) -> None:
    give_up_one(watch, scene, 0.0)
    tried: list[int] = []
    for second in range(5, 12_000):
        runs = len(scene.runs)
        assert watch.step(float(second)) == "well"
        if len(scene.runs) > runs:
            tried.append(second)
            scene.dismissed.clear()
            scene.runs[-1].problem, scene.runs[-1].is_done = "no", True
            assert watch.step(second + 0.5) == "well"
            assert "one.vocoder" in scene.dismissed
    assert tried == [304, 904, 2104, 4504, 8104, 11704]
    assert watch.held == set()
    assert not watch.take_back().voices


def test_an_attempt_that_the_end_of_the_engine_cut_short_is_made_again(
    watch: EngineWatch, scene: Scene, layout: Layout
) -> None:
    give_up_one(watch, scene, 0.0)
    watch.step(305.0)
    attempts = len(scene.runs)
    watch.engine_ended()
    watch.engine_started(2, take_inventory(layout), {"two", "echo"}, 310.0)
    watch.step(800.0)
    assert len(scene.runs) == attempts
    watch.step(906.0)
    assert len(scene.runs) == attempts + 1


def test_what_is_given_up_again_soon_waits_longer(watch: EngineWatch, scene: Scene) -> None:
    give_up_one(watch, scene, 0.0)
    watch.step(305.0)
    scene.end_cure()
    watch.step(306.0)
    assert set(watch.take_back().voices) == {"one"}
    assert "tried again after 10 minutes" in give_up_one(watch, scene, 400.0)


def test_a_cure_of_what_is_given_up_meanwhile_does_not_cost_the_engine(watch: EngineWatch, scene: Scene) -> None:
    scene.die("one.vocoder")
    watch.step(1.0)
    for second in (2.0, 3.0, 4.0, 5.0):
        scene.stubs.append(Stub(int(200 + second), 0.0, "one.vocoder"))
        watch.step(second)
        scene.die("one.vocoder")
        watch.step(second + 0.5)
    assert set(watch.take_given_up()) == {"one"}
    scene.end_cure("unloaded")
    assert watch.step(6.0) == "well"
    assert len(scene.runs) == 1


def test_what_a_fresh_engine_does_not_cure_either_is_given_up(watch: EngineWatch, scene: Scene, layout: Layout) -> None:
    for second, verdict in ((1.0, "kill"), (100.0, "well")):
        scene.die("one.vocoder")
        watch.step(second)
        scene.end_cure("no answer")
        assert watch.step(second + 1) == verdict
        if verdict == "kill":
            watch.engine_started(2, take_inventory(layout), {"one", "two", "echo"}, second + 10)
    assert watch.take_given_up()["one"].startswith(
        "one.vocoder cannot be loaded again after a stub of it died: no answer"
    )


def test_stubs_of_callables_and_of_what_is_not_served_are_nobody_s_business(
    watch: EngineWatch, scene: Scene, layout: Layout
) -> None:
    scene.die("callable")
    watch.step(1.0)
    watch.engine_started(2, take_inventory(layout), {"one"}, 2.0)
    scene.die("two.vocoder")
    watch.step(3.0)
    assert scene.runs == []


def test_an_engine_that_hangs_is_killed(watch: EngineWatch, scene: Scene) -> None:
    scene.hangs = True
    assert watch.step(1.0) == "kill"


def test_an_engine_above_its_limit_is_recycled_and_measured_every_few_seconds(watch: EngineWatch, scene: Scene) -> None:
    watch.step(0.0)
    assert watch.memory_bytes == 100 * MIB
    scene.memory_mib = 300
    assert watch.step(1.0) == "well"
    assert watch.step(6.0) == "recycle"
    assert watch.engine_ended()
    assert watch.step(12.0) == "well"


def test_nothing_is_watched_before_the_engine_has_loaded_and_after_its_end(watch: EngineWatch, scene: Scene) -> None:
    assert watch.engine_ended()
    assert not watch.engine_ended()
    scene.hangs = True
    scene.die("one.vocoder")
    assert watch.step(1.0) == "well"
    assert scene.runs == []


def test_stubs_that_stay_after_their_model_was_unloaded_are_ended_in_time(
    watch: EngineWatch, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[Stub] = []

    def kill(stubs: list[Stub]) -> list[Stub]:
        killed.extend(stubs)
        return stubs

    monkeypatch.setattr(engine_watch, "kill", kill)
    monkeypatch.setattr(engine_watch, "remove_unused_regions", lambda workspace, pid: [])
    lingering = Stub(99, 0.0, "one.vocoder")
    scene.stubs.append(lingering)
    watch.step(0.5)
    scene.stubs = [stub for stub in scene.stubs if stub == lingering or stub.model != "one.vocoder"]
    watch.step(1.0)
    scene.end_cure()
    watch.step(2.0)
    assert killed == []
    watch.step(1.0 + engine_watch.LINGER_S)
    assert killed == [lingering]


class Arms(NoArms):
    """One arm of ``one`` with version 2 of the vocoder; version 3 is nobody's."""

    def __init__(self) -> None:
        self.dead: list[int | None] = []
        self.gone: dict[str, str] = {}

    def fate(self, stub: Stub) -> Fate:
        return {2: "arm", 3: "ignore"}.get(stub.version or 0, "cure")  # type: ignore[return-value]

    def died(self, stub: Stub, cause: str) -> None:
        self.dead.append(stub.version)

    def cured_with(self, voices: Collection[str]) -> dict[str, VoiceSpec]:
        return {"one.new": voice_spec("one")} if "one" in voices else {}

    def lost(self, ensembles: Mapping[str, str]) -> None:
        self.gone |= ensembles


def test_the_death_of_a_version_that_only_an_arm_uses_costs_the_voice_nothing(watch: EngineWatch, scene: Scene) -> None:
    arms = watch._arms = Arms()
    scene.stubs += [Stub(98, 0.0, "one.vocoder", version=2), Stub(99, 0.0, "one.vocoder", version=3)]
    watch.step(0.5)
    scene.stubs = [stub for stub in scene.stubs if stub.version is None]
    assert watch.step(1.0) == "well"
    assert arms.dead == [2]
    assert (scene.runs, watch.held, watch.stub_restarts) == ([], set(), 0)


def test_a_cure_of_a_voice_brings_its_arms_back(watch: EngineWatch, scene: Scene) -> None:
    arms = watch._arms = Arms()
    scene.die("one.vocoder")
    watch.step(1.0)
    assert set(scene.runs[0].mending.arms) == {"one.new"}
    assert watch.held == {"one"}
    scene.runs[0].lost_arms = {"one.new": "does not load"}
    scene.runs[0].is_loaded = True
    watch.step(1.5)
    assert arms.gone == {"one.new": "does not load"}
    assert watch.reloads["one.new"] == 1
    assert (watch.held, watch.in_cure) == (set(), {"one"}), "nothing is changed about it while it is tried out"
    scene.runs[0].lost_arms = {"one.new": "silent"}
    scene.end_cure()
    watch.step(2.0)
    assert arms.gone == {"one.new": "silent"}
    assert watch.in_cure == set()


def test_a_voice_that_has_moved_is_cured_as_it_is(watch: EngineWatch, scene: Scene, layout: Layout) -> None:
    voice = take_inventory(layout).voices["one"]
    stages = voice.spec.stages
    moved = stages.model_copy(update={"vocoder": stages.vocoder.model_copy(update={"version": 2})})
    watch.voice_moved(replace(voice, spec=voice.spec.model_copy(update={"stages": moved})))
    scene.die("one.vocoder")
    watch.step(1.0)
    assert scene.runs[0].mending.voices[0].versions["vocoder"] == 2
