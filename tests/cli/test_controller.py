from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.harness import voxrepo
from voxrepo.repository.layout import Layout
from voxrepo.rollout.controllers import living_controllers
from voxrepo.rollout.plan import RolloutFolder


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = voxrepo("controller", "--root", str(tmp_path / "absent"))
    assert result.returncode == 1
    assert "there is no such folder" in result.stderr


def test_a_controller_runs_alone_until_it_is_told_to_end(tmp_path: Path) -> None:
    folder = RolloutFolder(Layout.of(tmp_path).rollouts)
    process = subprocess.Popen(
        [sys.executable, "-m", "voxrepo", "controller", "--root", str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 60
        while not living_controllers(folder):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "controller of" in said
    assert living_controllers(folder) == []
