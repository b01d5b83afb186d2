"""Servers that live, but do not do what the plan says, or do not serve the voice at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rollout.test_decide import NEW, OLD, READY, at, look, server
from tests.rollout.world import VOICE, Server, World
from voxrepo.rollout.decide import SERVER_LIMIT_S
from voxrepo.rollout.decision import Command
from voxrepo.rollout.plan import ReplicaStatus, write_json
from voxrepo.supervisor.arm_report import absent_voice


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "root", servers=2)
    made.start()
    made.look_until(lambda: made.phase == "running")
    yield made
    made.kill()


class WithoutVoice(Server):
    """A server that has given the voice up, or whose engine has yet to start."""

    engine_runs = True

    def follow(self) -> None:
        plan = self._world.plan
        status = ReplicaStatus(
            name=self.name,
            pid=1,
            updated_at=self._world.now,
            generation=plan.generation if self.engine_runs else 0,
            voices={name: absent_voice(wanted, is_known=self.engine_runs) for name, wanted in plan.voices.items()},
        )
        write_json(self._world.folder.status_file(self.name), status)


def lose_voice(world: World, number: int, *, engine_runs: bool = True) -> None:
    server = WithoutVoice(world, f"s{number}")
    server.engine_runs = engine_runs
    world.servers[number] = server


def order(world: World, kind: str) -> None:
    with world.store() as store:
        store.order("r1", Command.model_validate({"kind": kind, "by": "anna"}))


def test_a_rollout_ends_though_one_server_has_given_the_voice_up(world: World) -> None:
    lose_voice(world, 1)
    world.look_until(lambda: world.rollout.state.is_final, looks=5)
    assert world.phase == "rolled_back"
    assert "candidate on s1: the voice itself is not served here" in world.rollout.state.reason


def test_a_promotion_is_taken_back_though_it_cost_the_only_server_its_voice(world: World) -> None:
    world.servers[1].is_alive = False
    order(world, "promote")
    world.look_until(lambda: world.phase == "keeping_previous")
    assert world.pinned() == NEW
    lose_voice(world, 0)
    order(world, "abort")
    world.look_until(lambda: world.rollout.state.is_final, looks=5)
    assert world.phase == "rolled_back"
    assert world.pinned() == OLD
    assert VOICE not in world.plan.voices


def test_a_server_whose_engine_does_not_start_is_waited_for_and_then_left_behind(world: World) -> None:
    lose_voice(world, 1, engine_runs=False)
    order(world, "abort")
    for _ in range(4):
        world.look(2.0)
    assert world.phase == "aborting"
    world.look(SERVER_LIMIT_S)
    assert world.phase == "rolled_back"
    assert "s1: has not taken up the plan" in world.rollout.state.reason
    assert "anna" in world.rollout.state.reason


@pytest.mark.parametrize(
    ("phase", "end", "status"),
    [
        ("loading", "refused", server("two", int8="loading")),
        ("probing", "refused", server("two", int8="loading")),
        ("promoting", "aborting", server("two", int8="ready")),
        ("aborting", "rolled_back", server("two", stable=NEW)),
        ("aborting", "rolled_back", server("two", stable={}, generation=6)),
    ],
)
def test_no_phase_waits_for_a_living_server_for_ever(phase: str, end: str, status: ReplicaStatus) -> None:
    moved = {"promoted": "int8", "stable_moved": True} if phase in {"promoting", "aborting"} else {}
    early = at(phase, since=200.0 - SERVER_LIMIT_S + 1, **moved)
    assert look(early, READY, status).state.phase == phase
    late = at(phase, since=200.0 - SERVER_LIMIT_S, **moved)
    decision = look(late, READY if phase != "promoting" else server(stable=NEW, int8="ready"), status)
    assert decision.state.phase == end
    assert "two" in decision.state.reason
    assert "30 min" in decision.state.reason
    if moved:
        assert decision.voice_versions == OLD


def test_a_root_without_any_living_server_may_take_its_time() -> None:
    for phase in ("loading", "promoting"):
        rollout = at(phase, since=200.0 - 2 * SERVER_LIMIT_S, promoted="int8" if phase == "promoting" else None)
        assert look(rollout).waiting == "no server is alive"


def test_a_pause_in_loading_takes_as_long_as_the_operator_likes() -> None:
    rollout = at("paused", since=200.0 - 2 * SERVER_LIMIT_S, resume_to="loading")
    assert look(rollout, server(int8="loading")).waiting == "paused"
