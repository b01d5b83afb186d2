"""The rollouts' controller as a child."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.supervisor.conftest import wait_until
from voxrepo.repository.layout import Layout
from voxrepo.rollout.controllers import living_controllers
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.supervisor.controller import ControllerChild


def test_it_is_started_again_after_a_kill_and_ends_with_the_server(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    folder = RolloutFolder(layout.rollouts)
    child = ControllerChild(layout, tmp_path / "controller.log")
    child.start()
    try:
        wait_until(lambda: bool(living_controllers(folder)), 20)
        (first,) = living_controllers(folder)
        os.kill(first.pid, signal.SIGKILL)

        def is_another() -> bool:
            child.step(time.monotonic())
            return [sign.pid for sign in living_controllers(folder)] not in ([], [first.pid])

        wait_until(is_another, 20)
    finally:
        child.ask_to_end()
        child.stop()
    assert living_controllers(folder) == []
    assert "controller of" in (tmp_path / "controller.log").read_text(encoding="utf-8")
