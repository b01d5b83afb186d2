"""A controller with servers and clients that only exist as files."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.rollout.world import CANARY, NEW, OLD, VOICE, World, metrics_of
from voxrepo.rollout import controller as controller_module
from voxrepo.rollout import pins, plan_file
from voxrepo.rollout.controller import LINGER_S, Controller
from voxrepo.rollout.database import Database
from voxrepo.rollout.decision import Command
from voxrepo.rollout.plan import Plan, write_json
from voxrepo_contract.yamlfile import write_text_atomically

GOOD = ["pending", "loading", "probing", "running", "promoting", "keeping_previous", "done"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "root", servers=2)
    yield made
    made.kill()


def speak_well(world: World) -> None:
    world.speak("candidate")
    world.speak("stable")


def is_over(world: World) -> bool:
    return world.rollout.state.is_final


def run_until(world: World, phase: str) -> None:
    pairs = itertools.count()

    def speak() -> None:
        if world.phase == "running":
            speak_well(world)
            for _ in range(4):
                world.pair(f"p{next(pairs)}")
            world.measure_all()

    world.look_until(lambda: world.phase == phase, speak=speak, looks=120)


def test_a_good_candidate_is_promoted_through_all_steps(world: World) -> None:
    world.start()
    run_until(world, "running")
    assert world.weights == {"candidate": 10}
    run_until(world, "promoting")
    steps = [logged.event.reason for logged in world.events if logged.event.kind == "step"]
    assert len(steps) == 1
    assert "50 % of the requests to candidate" in steps[0]
    assert world.pinned() == OLD  # the servers have not moved yet
    run_until(world, "keeping_previous")
    assert world.pinned() == NEW
    assert world.plan.voices[VOICE].arms == {"previous": OLD}
    run_until(world, "done")
    assert world.path == GOOD
    assert world.plan.voices == {}
    assert [server.stable for server in world.servers] == [NEW, NEW]
    text = world.voice_file.read_text(encoding="utf-8")
    assert "# the good one" in text
    assert "vocoder: {version: 2, threads: 1}" in text
    assert "vocoder: {version: 1," in world.voice_file.with_name("voice.yaml.previous").read_text(encoding="utf-8")
    with world.store() as store:
        assert store.progress("r1").judgement is not None
        weights = [step.weights for step in store.steps("r1")]
    assert {"candidate": 10} in weights
    assert {"candidate": 50} in weights


def test_too_little_traffic_neither_promotes_nor_takes_back(world: World) -> None:
    world.start()
    world.look_until(lambda: world.phase == "running")
    world.speak("candidate", 30)
    for _ in range(30):
        world.look(10)
    assert world.phase == "running"
    assert world.rollout.state.step == 0
    with world.store() as store:
        assert "30 of 100 requests" in store.progress("r1").waiting


def broken_at_load(world: World) -> None:
    world.servers[1].broken = {"candidate": "Internal: the graph does not load"}


def dies(world: World) -> None:
    if world.phase == "running":
        world.servers[0].broken = {"candidate": "its process died (signal 11)"}


def fails(world: World) -> None:
    world.speak("candidate", 40, failed=20)
    world.speak("stable")


def is_slow(world: World) -> None:
    world.speak("candidate", slower=3.0)
    world.speak("stable")


def is_silent(world: World) -> None:
    world.speak("candidate", silence=1.0)
    world.speak("stable")


def is_loud(world: World) -> None:
    speak_well(world)
    for number in range(12):
        world.pair(f"{world.now}-{number}", gain=2.0)
    world.measure_all()


def is_fast(world: World) -> None:
    speak_well(world)
    for number in range(12):
        world.pair(f"{world.now}-{number}", stretch=0.7)
    world.measure_all()


@pytest.mark.parametrize(
    ("trouble", "end", "reason"),
    [
        (broken_at_load, "refused", "candidate on s1: Internal: the graph does not load"),
        (dies, "rolled_back", "candidate on s0: its process died"),
        (fails, "rolled_back", "error_ratio of candidate is 0.5"),
        (is_slow, "rolled_back", "latency_p50_ms of candidate"),
        (is_silent, "rolled_back", "silence_ratio of candidate is 1"),
        (is_loud, "rolled_back", "level_difference_db of candidate is 6.0"),
        (is_fast, "rolled_back", "duration_ratio of candidate is 0.7"),
    ],
)
def test_a_broken_candidate_is_taken_back_with_the_reason(world: World, trouble, end: str, reason: str) -> None:
    world.start()
    if trouble is broken_at_load:
        trouble(world)

    def speak() -> None:
        if world.phase == "running":
            trouble(world)

    world.look_until(lambda: is_over(world), speak=speak)
    assert world.phase == end
    assert reason in world.rollout.state.reason
    assert world.rollout.state.step == 0
    assert world.pinned() == OLD
    assert world.plan.voices == {}
    assert [server.stable for server in world.servers] == [OLD, OLD]
    world.look(5)
    assert f'voxrepo_rollouts_ended_total{{state="{end}",voice="{VOICE}"}} 1.0' in metrics_of(world)
    assert f'voxrepo_rollbacks_total{{voice="{VOICE}"}} {float(end == "rolled_back")}' in metrics_of(world)


def test_a_server_that_cannot_move_takes_the_promotion_back_everywhere(world: World) -> None:
    world.start()
    run_until(world, "running")
    world.servers[1].cannot_move = "the probe was silent"
    run_until(world, "aborting")
    assert "s1: the probe was silent" in world.rollout.state.reason
    world.look_until(lambda: is_over(world))
    assert world.phase == "rolled_back"
    assert world.pinned() == OLD
    assert [server.stable for server in world.servers] == [OLD, OLD]


def test_commands_are_carried_out_and_logged(world: World) -> None:
    world.start()
    world.look_until(lambda: world.phase == "running")
    with world.store() as store:
        order = store.order("r1", Command(kind="set_weights", weights={"candidate": 30}, by="anna"))
    world.look()
    with world.store() as store:
        assert store.is_consumed(order.id)
        store.order("r1", Command(kind="promote", by="anna"))
    assert world.weights == {"candidate": 30}
    world.look_until(lambda: is_over(world), looks=90)
    assert world.path == GOOD


def test_a_plan_that_is_lost_damaged_or_of_somebody_else_is_written_again(world: World) -> None:
    world.start()
    world.look_until(lambda: world.phase == "running")
    wanted = world.plan
    spoils: tuple[Callable[[], object], ...] = (
        world.folder.plan_file.unlink,
        partial(world.folder.plan_file.write_text, "{", encoding="utf-8"),
        partial(write_json, world.folder.plan_file, Plan(generation=wanted.generation)),
    )
    for number, spoil in enumerate(spoils, start=1):
        spoil()
        world.controller.step()
        assert world.plan.voices == wanted.voices
        assert world.plan.generation >= wanted.generation + number  # no server is to take it for an old one


def test_a_voice_file_that_cannot_be_written_stops_the_rollout_until_it_can(world: World) -> None:
    world.start()
    run_until(world, "promoting")
    text = world.voice_file.read_text(encoding="utf-8")
    world.voice_file.write_text("voice: [", encoding="utf-8")
    for _ in range(5):
        world.look()
    assert world.phase == "promoting"
    said = [logged.event.reason for logged in world.events if logged.event.kind == "controller"]
    assert sum("cannot be pinned" in reason for reason in said) == 1
    world.voice_file.write_text(text, encoding="utf-8")
    world.look_until(lambda: is_over(world))
    assert world.pinned() == NEW


def test_one_controller_leads_and_another_takes_over_in_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world.start()
    world.look_until(lambda: world.phase == "running")
    first = world.controller
    second = Controller(world.layout, "the other", clock=lambda: world.now, ticks=lambda: world.now)
    second.step()
    assert (first.leads, second.leads) == (True, False)
    assert f"waiting: {first._holder} leads" in caplog.text
    world.now += 11  # the first one hangs
    for server in world.servers:
        server.follow()
    second.step()
    assert second.leads
    assert any("the other goes on from running" in logged.event.reason for logged in world.events)
    first.step()
    assert not first.leads
    second.close()
    first.step()
    assert first.leads


def test_nothing_is_done_long_after_the_last_rollout_but_to_stay_the_leader(world: World) -> None:
    world.start()
    with world.store() as store:
        store.order("r1", Command(kind="abort"))
    world.look_until(lambda: is_over(world))
    assert world.controller.is_busy
    world.look(LINGER_S + 1)
    assert not world.controller.is_busy
    world.speak("candidate", 5)
    world.look(1)
    assert world.counted() == 0
    with world.store() as store:
        assert store.lease_holder() == world.controller._holder


# ends at any point


class Crash(BaseException):
    """kill -9."""


class Points:
    """Counts what the controller does to disks, and ends it at one of these points."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Points:
    here = Points()
    begin = Database.transaction

    @contextmanager
    def transaction(self):
        here()
        with begin(self) as connection:
            yield connection
            here()  # a crash now: nothing of it is saved
        here()

    def around(function):
        def wrapped(*arguments, **options):
            here()
            result = function(*arguments, **options)
            here()
            return result

        return wrapped

    monkeypatch.setattr(Database, "transaction", transaction)
    monkeypatch.setattr(plan_file, "write_json", around(write_json))
    for module in (pins, controller_module):
        monkeypatch.setattr(module, "write_text_atomically", around(write_text_atomically))
    monkeypatch.setattr(Path, "unlink", around(Path.unlink))
    return here


def look_and_crash(world: World, points: Points, at: int) -> bool:
    """One look that ends at a point; False if it has fewer points."""
    world.now += 1
    for server in world.servers:
        server.follow()
    controller = world.controller
    points.left = at
    try:
        controller.step()
    except Crash:
        return True
    finally:
        points.left = None
        world.kill()
        world.now += 12  # the lease runs out
        for server in world.servers:
            server.follow()
    return False


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("ending", ["promoted", "rolled back"])
def test_after_a_crash_at_any_point_of_any_change_the_log_explains_the_state(
    world: World, points: Points, tmp_path: Path, ending: str, every: int
) -> None:
    world.start(CANARY + "pair_percent: 0\n")
    crashes, phases = 0, set()
    snapshots = itertools.count()
    asked = 0
    for _ in range(60):
        if is_over(world):
            break
        if world.phase == "running":
            failed = 20 if ending == "rolled back" and world.rollout.state.step else 0
            world.speak("candidate", failed=failed)
            world.speak("stable")
            asked += 250
        before = world.rollout.state
        world.kill()
        world.now += 12
        snapshot = world.copy(tmp_path / f"snapshot{next(snapshots)}")
        world.look()
        if (world.rollout.state.phase, world.rollout.state.step) == (before.phase, before.step):
            continue
        phases.add((before.phase, world.rollout.state.phase))
        for at in itertools.count(0, every):
            trial = snapshot.copy(tmp_path / "trial")
            did_crash = look_and_crash(trial, points, at)
            for _ in range(20):
                if (trial.phase, trial.rollout.state.step) != (before.phase, before.step):
                    break
                trial.look()
            trial.look(0.1)
            check(trial, asked)
            trial.kill()
            shutil.rmtree(tmp_path / "trial")
            if not did_crash:
                break
            crashes += 1
    assert is_over(world)
    check(world, asked)
    assert crashes > 60 // every, crashes
    assert len(phases) >= 6, phases
    assert world.phase == ("done" if ending == "promoted" else "rolled_back")


def check(world: World, asked: int) -> None:
    rollout = world.rollout
    assert world.path[-1] == rollout.state.phase
    assert world.counted() == asked  # each once
    reasons = [logged.event.reason for logged in world.events if logged.event.kind in ("state", "step")]
    assert not reasons or reasons[-1] == rollout.state.reason
    wanted = world.plan.voices.get(VOICE)
    if rollout.state.is_final or rollout.state.phase == "pending":
        assert wanted is None
    else:
        assert wanted is not None
        assert wanted.stable in (OLD, NEW)
    if rollout.state.phase in ("keeping_previous", "done"):
        assert world.pinned() == NEW
        assert "version: 1, threads" in world.voice_file.with_name("voice.yaml.previous").read_text(encoding="utf-8")
    else:
        assert world.pinned() == OLD


def test_the_gates_of_a_spec_can_be_none(world: World) -> None:
    world.start(CANARY + "gates: []\n")
    world.look_until(lambda: world.phase == "done", speak=lambda: world.speak("candidate"), looks=90)
    assert world.path == GOOD
