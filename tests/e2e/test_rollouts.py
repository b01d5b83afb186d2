"""A rollout of a real voice carries itself out, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.arm_versions import add_vocoder, loaded_versions, one_process_per_stage
from tests.e2e.rollouts import Watched
from tests.e2e.streams import metric
from tests.e2e.test_arms import HALF, load
from tests.e2e.test_recovery import wait_until
from tests.harness import VOICE, clone_root, running_server
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.controllers import living_controllers

pytestmark = pytest.mark.e2e

SPEC = f"""\
voice: {VOICE}
arms: {{candidate: {{vocoder: 2}}}}
policy:
  kind: canary
  arm: candidate
  steps: [{{weight: 40, hold_s: 1, min_requests: 10}}, {{weight: 80, hold_s: 1, min_requests: 10}}]
pair_percent: 100
keep_previous_s: 2
gates:
  - {{metric: error_ratio, max: 0.4, min_samples: 10}}
  - {{metric: latency_p50_ms, max: 10000, min_samples: 10}}
  - {{metric: silence_ratio, max_difference: 0.3, min_samples: 5}}
  - {{metric: duration_ratio, min: 0.9, max: 1.1, min_samples: 5}}
"""
PATH = ["pending", "loading", "probing", "running", "promoting", "keeping_previous", "done"]


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    root = clone_root(voice_root, tmp_path / "root")
    add_vocoder(root, 2, 0.5)
    one_process_per_stage(root)
    return root


def controller_pid(watched: Watched) -> int:
    end = time.monotonic() + 15
    while True:
        signs = living_controllers(watched.folder)
        if signs:
            (sign,) = signs
            return sign.pid
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_good_candidate_is_promoted_though_the_server_and_the_controller_are_killed(root: Path) -> None:
    watched = Watched(root)
    with running_server(root) as server:
        assert not watched.folder.database.exists()
        controller_pid(watched)
        watched.start(SPEC)
        watched.wait(lambda rollout: rollout.state.phase == "running")
        server.kill()
    assert watched.phase == "running"

    with running_server(root) as server, load(server) as seen:
        watched.wait(lambda rollout: rollout.state.step == 1)
        wait_until(lambda: metric(server, "voxrepo_rollout_state", rollout=watched.id) == 1, 10, "it is shown")
        killed = controller_pid(watched)
        os.kill(killed, signal.SIGKILL)
        watched.wait_for_end()
        assert watched.phase == "done", watched.said()
        seen.wait_for("half")
        while loaded_versions(server) != {2}:
            time.sleep(0.05)
        assert controller_pid(watched) != killed
    assert set(seen.heard) == {"whole", "half"}
    assert watched.path() == PATH
    resumed = [reason for kind, *_, reason in watched.events() if kind == "controller"]
    assert len(resumed) >= 2, resumed
    assert all("goes on from" in reason for reason in resumed)
    assert read_voice(watched.layout, VOICE).versions == HALF
    assert (root / "ensembles" / VOICE / "voice.yaml.previous").is_file()
    assert living_controllers(watched.folder) == []
    samples = list(watched.folder.samples.glob(f"{watched.id}/*.wav"))
    assert len(samples) >= 2
