"""The clock of the machine is set back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rollout.test_controllers import dead_sign
from tests.rollout.test_decide import READY, at, judged, look, server
from tests.rollout.world import World
from voxrepo.repository.layout import Layout
from voxrepo.rollout.controllers import SignOfLife, living_controllers, this_process
from voxrepo.rollout.decision import Command
from voxrepo.rollout.observed import Observed
from voxrepo.rollout.overview import overview_of, read_statuses
from voxrepo.rollout.plan import STATUS_LIMIT_S, RolloutFolder
from voxrepo.rollout.store import LONGEST_LEASE_S, Store

HOUR_S = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "root", servers=2, now=100_000.0)
    ticks = [0.0]
    made.controller._ticks = made.controller._judge._ticks = lambda: ticks[0]
    look = made.look

    def both(seconds: float = 1.0) -> None:
        ticks[0] += seconds
        look(seconds)

    made.look = both  # type: ignore[method-assign]
    made.start()
    made.look_until(lambda: made.phase == "running")
    yield made
    made.kill()


def test_a_canary_is_judged_by_what_is_seen_after_it(world: World) -> None:
    world.speak("candidate", 90)
    world.speak("stable")
    world.look()
    world.now -= HOUR_S
    world.look(2.0)
    (said,) = [logged.event.reason for logged in world.events if "clock" in logged.event.reason]
    assert "3597 s" in said
    state = world.rollout.state
    assert (state.phase, state.since, state.step_started_at) == ("running", world.now, world.now)
    world.speak("candidate", 80)
    world.look(11.0)
    with world.store() as store:
        assert "80 of 100 requests" in store.progress("r1").waiting  # what seems yet to come does not count
    world.speak("candidate", 40, failed=40)
    world.look(2.0)
    assert world.phase in {"aborting", "rolled_back"}


def test_every_phase_measures_its_time_anew() -> None:
    for phase in ("loading", "probing", "running", "paused", "promoting", "keeping_previous", "aborting"):
        resume_to = "running" if phase == "paused" else None
        rollout = at(phase, since=HOUR_S, step_started_at=HOUR_S, resume_to=resume_to, promoted="int8")
        decision = look(rollout, READY, judgement=judged(verdict="fail"))
        assert (decision.state.since, decision.state.step_started_at) == (200.0, 200.0)
        assert decision.state.phase == phase
        (event,) = decision.events
        assert (event.kind, event.from_phase, event.to_phase) == ("controller", phase, phase)
        assert not look(rollout.with_state(decision.state), READY).events or phase in {"loading", "aborting"}
    done = at("done", since=HOUR_S)
    assert look(done).state == done.state


def test_the_previous_versions_are_kept_no_longer_than_the_spec_says() -> None:
    kept = at("keeping_previous", since=HOUR_S, promoted="int8", stable_moved=True)
    kept = kept.with_state(look(kept).state)
    assert look(kept, now=799.0).state.phase == "keeping_previous"
    assert look(kept, now=800.0).state.phase == "done"


def test_a_dead_server_does_not_come_to_life(world: World) -> None:
    world.servers[1].is_alive = False
    world.now -= HOUR_S
    world.look()
    with world.store() as store:
        view = overview_of(store, world.rollout, read_statuses(world.folder), now=world.now)
        assert [replica.lives for replica in view.replicas] == [True, False]
        store.order("r1", Command(kind="abort"))
    world.look_until(lambda: world.phase == "rolled_back", looks=5)
    ahead = server("two", at_=200.0 + STATUS_LIMIT_S, int8="loading")
    assert "two" in look(at("loading"), READY, ahead).waiting


def test_the_lease_of_a_controller_that_died_before_is_not_waited_for(tmp_path: Path) -> None:
    now = [HOUR_S]
    with Store(tmp_path / "r.db", lambda: now[0]) as store:
        assert store.take_lease("a dead one", 30) == "taken"
        now[0] -= LONGEST_LEASE_S
        assert store.lease_holder() is None
        assert store.take_lease("another", 30) == "taken"
        assert store.take_lease("another", 30) == "renewed"
        assert store.lease_holder() == "another"


def test_a_dead_controller_on_another_machine_does_not_come_to_life(tmp_path: Path) -> None:
    folder = RolloutFolder(Layout.of(tmp_path / "root").rollouts)
    SignOfLife(folder, dead_sign().model_copy(update={"place": "another machine"})).renew(1000.0 + HOUR_S)
    assert living_controllers(folder, 1000.0) == []
    SignOfLife(folder, this_process()).renew(1000.0)
    assert len(living_controllers(folder, 1000.0)) == 1


def test_what_was_seen_before_does_not_count_until_its_time(world: World) -> None:
    world.speak("candidate", 10)
    world.look()
    with world.store() as store:
        observed = Observed(store.database)
        assert observed.samples(world.rollout, 0.0)["candidate"].requests == 10
        assert observed.samples(world.rollout, 0.0, world.now - 30)["candidate"].requests == 0
