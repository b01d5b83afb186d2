"""Promotions that go wrong after all, on a real server."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.e2e.arm_versions import WHOLE, add_vocoder, one_process_per_stage
from tests.e2e.broken_versions import add_crashing_acoustic
from tests.e2e.calls import generate
from tests.e2e.rollouts import Watched
from tests.e2e.streams import Heard, listen
from tests.e2e.test_arms import is_half, pinned
from tests.e2e.test_recovery import wait_until
from tests.e2e.test_rollout_storms import give, order
from tests.harness import VOICE, RunningServer, clone_root, running_server
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.decision import Command

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

SPEC = f"""\
voice: {VOICE}
policy:
  kind: canary
  arm: candidate
  steps: [{{weight: 1, hold_s: 600, min_requests: 100}}]
pair_percent: 0
keep_previous_s: 600
gates:
  - {{metric: error_ratio, max: 0.2, min_samples: 100}}
"""
LONG_TEXT = "This sentence is followed by others, and the stream that speaks them lives longer than the engine. " * 8


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    root = clone_root(voice_root, tmp_path / "root")
    one_process_per_stage(root)
    return root


def is_given_up(server: RunningServer) -> bool:
    return any(model["name"] == VOICE and model["state"] == "failed" for model in server.read_state()["models"])


def test_a_promoted_version_that_has_its_voice_given_up_is_taken_back_by_an_abort(root: Path) -> None:
    add_crashing_acoustic(root, 2, "z")
    watched = Watched(root)
    with running_server(root) as server:
        watched.start(SPEC + "arms: {candidate: {acoustic: 2}}\n")
        watched.wait(lambda rollout: rollout.state.phase == "running", 100)
        order(watched, Command(kind="promote"))
        watched.wait(lambda rollout: rollout.state.phase == "keeping_previous", 100)
        end = time.monotonic() + 100
        while not is_given_up(server):
            assert time.monotonic() < end, server.read_state()
            generate(server, {"text": "A lazy zebra."})
        assert generate(server, {"text": "Hello."})[0] == 503
        if not watched.rollout().state.is_final:
            give(watched, Command(kind="abort", reason="it crashes"))
        watched.wait_for_end(60)
        assert watched.phase == "rolled_back", watched.said()
        assert read_voice(watched.layout, VOICE).versions == WHOLE
        wait_until(lambda: generate(server, {"text": "A lazy zebra."})[0] == 200, 60, "the voice is back")
        (model,) = [model for model in server.read_state()["models"] if model["name"] == VOICE]
        assert (model["state"], model["versions"]) == ("ready", WHOLE)
        assert server.read_state()["engine_restarts"] == 0


def test_streams_and_callers_of_an_arm_outlive_the_engine(root: Path) -> None:
    add_vocoder(root, 2, 0.5)
    watched = Watched(root)
    with running_server(root) as server:
        whole = listen(server, LONG_TEXT, seed=1).joined
        watched.start(SPEC + "arms: {candidate: {vocoder: 2}}\n")
        watched.wait(lambda rollout: rollout.state.phase == "running", 100)
        time.sleep(11)  # or the arm would be blamed for the end of the engine
        heard: list[Heard] = []
        model = f"{VOICE}.candidate.stream"
        stream = threading.Thread(target=lambda: heard.append(listen(server, LONG_TEXT, model, seed=1)))
        stream.start()
        time.sleep(1.0)
        assert stream.is_alive()
        psutil.Process(server.read_state()["engine_pid"]).kill()
        audio, facts = pinned(server, "And this one comes while the engine is away.", "candidate")
        assert facts["arm"] == "candidate"
        assert audio.any()
        stream.join(60)
        assert heard, "the stream failed"
        assert is_half(heard[0].joined, whole)
        assert server.read_state()["engine_restarts"] == 1
        order(watched, Command(kind="abort"))
        watched.wait_for_end()
