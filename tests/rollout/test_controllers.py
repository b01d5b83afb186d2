from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.rollout.world import World
from voxrepo.repository.layout import Layout
from voxrepo.rollout import process
from voxrepo.rollout.controller import Controller
from voxrepo.rollout.controllers import (
    SIGN_LIMIT_S,
    ControllerSign,
    SignOfLife,
    has_ended,
    living_controllers,
    read_sign,
    remove_old_signs,
    this_process,
)
from voxrepo.rollout.plan import RolloutFolder


@pytest.fixture
def folder(tmp_path: Path) -> RolloutFolder:
    return RolloutFolder(Layout.of(tmp_path / "root").rollouts)


def dead_sign() -> ControllerSign:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    return this_process().model_copy(update={"holder": "a dead one", "pid": child.pid, "started_at": time.time()})


def test_a_controller_lives_as_long_as_it_says_so(folder: RolloutFolder) -> None:
    assert living_controllers(folder) == []
    sign = SignOfLife(folder, this_process())
    sign.renew(1000.0)
    assert living_controllers(folder, 1001.0) == [sign.sign]
    assert living_controllers(folder, 1000.0 + SIGN_LIMIT_S + 1) == []
    sign.renew(1010.0)
    assert living_controllers(folder, 1000.0 + SIGN_LIMIT_S + 1) == [sign.sign]
    sign.remove()
    assert living_controllers(folder, 1010.0) == []


def test_a_process_that_is_gone_is_known_to_be_dead_only_where_it_could_be_seen(folder: RolloutFolder) -> None:
    mine, dead = this_process(), dead_sign()
    assert not has_ended(mine)
    assert has_ended(dead)
    assert has_ended(mine.model_copy(update={"started_at": mine.started_at - 1000}))  # its number was given again
    assert not has_ended(dead.model_copy(update={"place": "another machine"}))
    for sign in (mine, dead):
        SignOfLife(folder, sign).renew(time.time())
    assert living_controllers(folder) == [mine]
    assert read_sign(folder, "a dead one") == dead
    remove_old_signs(folder)
    assert read_sign(folder, "a dead one") is None
    assert read_sign(folder, mine.holder) == mine


def test_nobody_waits_for_the_lease_of_a_dead_controller(tmp_path: Path) -> None:
    world = World(tmp_path / "root")
    world.start()
    with world.store() as store:
        assert store.take_lease("a dead one", 100)
    world.look()
    assert not world.controller.leads
    SignOfLife(world.folder, dead_sign()).renew(world.now)
    world.look()
    assert world.controller.leads
    world.kill()


def test_a_controller_that_leads_again_after_another_forgets_what_it_knew(tmp_path: Path) -> None:
    world = World(tmp_path / "root")
    world.start()
    world.look_until(lambda: world.phase == "running")
    first, clock = world.controller, lambda: world.now
    world.speak("candidate", 10)
    world.look()
    world.now += 11  # it is stopped, and its lease runs out
    second = Controller(world.layout, "the second", clock=clock, ticks=clock)
    world.speak("candidate", 50)
    world.servers[0].follow()
    second.step()
    assert second.leads
    second.close()  # before the first one could notice
    for _ in range(3):
        world.look()
    assert first.leads
    assert world.counted() == 60
    said = [logged.event.reason for logged in world.events if logged.event.kind == "controller"]
    assert [" goes on from running" in reason for reason in said] == [True, True]
    with world.store() as store:
        judgement = store.progress("r1").judgement
    assert judgement is not None
    assert judgement.requests["candidate"] == 60
    world.kill()


def test_a_controller_without_rollouts_makes_no_database_and_ends_when_it_is_told(
    folder: RolloutFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda change: 0)
    stop = threading.Event()
    layout = Layout.of(tmp_path / "root")
    thread = threading.Thread(target=process.run_controller, args=(layout, stop))
    thread.start()
    end = time.monotonic() + 10
    while not living_controllers(folder):
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.7)
    assert [file.name for file in folder.path.iterdir()] == ["controllers"]
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert living_controllers(folder) == []
