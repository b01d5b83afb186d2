"""Rollouts under the load of sixteen unary clients and eight streams: good ones, and eight kinds of broken ones."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.arm_versions import WHOLE, add_vocoder, one_process_per_stage
from tests.e2e.broken_versions import (
    add_crashing_acoustic,
    add_fast_acoustic,
    add_scaled_vocoder,
    add_slow_vocoder,
    add_unreadable_vocoder,
    add_vocoder_of_another_rate,
)
from tests.e2e.crowd import Arms, Crowd, crowd
from tests.e2e.rollouts import Watched
from tests.e2e.test_rollouts import controller_pid
from tests.harness import VOICE, clone_root, running_server, voxrepo
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.decision import Command
from voxrepo.rollout.store import Store

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

PAUSE_S = 6.0
"""Between a client's requests: two cores then have some time left, without which nothing can be loaded."""
MIN_REQUESTS = 60
STEPS = f"""\
voice: {VOICE}
policy:
  kind: canary
  arm: candidate
  steps: [{{weight: 50, hold_s: 5, min_requests: {MIN_REQUESTS}}}, {{weight: 90, hold_s: 5, min_requests: 30}}]
pair_percent: 100
keep_previous_s: 5
gates:
  - {{metric: error_ratio, max: 0.2, min_samples: 10}}
  - {{metric: silence_ratio, max_difference: 0.3, min_samples: 10}}
"""
GOOD = """\
  - {metric: latency_p50_ms, max_ratio: 1.6, min_samples: 15}
  - {metric: engine_real_time_factor, max_ratio: 1.3, min_samples: 15}
"""
PAIRS = """\
  - {metric: engine_real_time_factor, max_ratio: 1.3, min_samples: 15}
  - {metric: duration_ratio, min: 0.85, max: 1.15, min_samples: 5}
  - {metric: level_difference_db, min: -3, max: 3, min_samples: 5}
"""
"""Not for what must pass under full load: no copies are made while lines are long, so that these stay inconclusive."""


def spec(stage: str, version: int, gates: str = PAIRS) -> str:
    return STEPS + gates + f"arms: {{candidate: {{{stage}: {version}}}}}\n"


@dataclass(frozen=True)
class Broken:
    """A broken version.

    Attributes:
        stage: whose version it is.
        add: makes it.
        end: how its rollout must end.
        reason: a part of the reason.
        fails_users: whether some requests of its own users may fail before it is taken back.
    """

    stage: str
    add: Callable[[Path, int], None]
    end: str
    reason: str
    fails_users: bool = False


BROKEN = {
    "does not load": Broken("vocoder", add_unreadable_vocoder, "refused", "generator.onnx"),
    "crashes": Broken("acoustic", lambda root, v: add_crashing_acoustic(root, v, "z"), "rolled_back", "died", True),
    "returns NaN": Broken("vocoder", lambda root, v: add_scaled_vocoder(root, v, float("nan")), "refused", "finite"),
    "silent": Broken("vocoder", lambda root, v: add_scaled_vocoder(root, v, 0.003), "refused", "silent"),
    "too loud": Broken("vocoder", lambda root, v: add_scaled_vocoder(root, v, 2.0), "rolled_back", "level_difference"),
    "too fast": Broken("acoustic", lambda root, v: add_fast_acoustic(root, v, 0.7), "rolled_back", "duration_ratio"),
    "slow": Broken("vocoder", lambda root, v: add_slow_vocoder(root, v, 200), "rolled_back", "engine_real_time"),
    "another rate": Broken(
        "vocoder", lambda root, v: add_vocoder_of_another_rate(root, v, 16000), "refused", "sample_rate"
    ),
}


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    root = clone_root(voice_root, tmp_path / "root")
    add_vocoder(root, 2, 0.5)
    one_process_per_stage(root)
    return root


def only_whole(seen: Crowd) -> bool:
    return set(seen.stable) <= {"whole"}


def test_eight_kinds_of_broken_candidates_are_taken_back_and_the_stable_arms_users_notice_nothing(root: Path) -> None:
    numbers = {}
    for number, (name, broken) in enumerate(BROKEN.items(), start=3):
        numbers[name] = number
        broken.add(root, number)
    arms: Arms = {"stable": [WHOLE], "candidate": []}
    watched = Watched(root)
    with running_server(root) as server, crowd(server, arms, PAUSE_S) as seen:
        for name, broken in BROKEN.items():
            arms["candidate"].append({**WHOLE, broken.stage: numbers[name]})
            failures = sum(count for what, count in seen.heard.items() if what.startswith("failed"))
            started = time.monotonic()
            watched.start(spec(broken.stage, numbers[name]))
            state = watched.wait_for_end(400).state
            with Store(watched.folder.database) as store:
                judgement = store.progress(watched.id).judgement
            served = judgement.requests.get("candidate", 0) if judgement is not None else 0
            print(f"{name}: {state.phase} after {time.monotonic() - started:.0f} s, {served} requests: {state.reason}")
            assert state.phase == broken.end, watched.said()
            assert broken.reason in state.reason, watched.said()
            assert state.step == 0
            assert served <= MIN_REQUESTS
            time.sleep(1.0)
            new = sum(count for what, count in seen.heard.items() if what.startswith("failed")) - failures
            assert broken.fails_users or not new, seen.heard
            assert only_whole(seen), seen.stable
        assert read_voice(watched.layout, VOICE).versions == WHOLE
        assert server.read_state()["phase"] == "ready"
        assert server.read_state()["engine_restarts"] == 0
        # the command line does not even begin with what does not fit
        begun = voxrepo(
            "rollout", "start", "--voice", VOICE, "--set", f"vocoder={numbers['another rate']}", "--root", str(root)
        )
        assert begun.returncode != 0
        assert "16000" in begun.stderr
        assert "22050" in begun.stderr
    assert only_whole(seen), seen.stable
    assert sum(seen.stable.values()) > 50
    assert not seen.mixed


def test_a_good_candidate_is_promoted_and_another_aborted_without_a_failed_request(root: Path) -> None:
    half = {**WHOLE, "vocoder": 2}
    arms: Arms = {"stable": [WHOLE], "candidate": [half]}
    watched = Watched(root)
    with running_server(root) as server, crowd(server, arms, PAUSE_S) as seen:
        begun = time.monotonic()
        time.sleep(45)
        calm = time.monotonic()
        watched.start(spec("vocoder", 2, gates=GOOD))
        watched.wait(lambda rollout: rollout.state.phase == "running", 200)
        order(watched, Command(kind="set_weights", weights={"candidate": 20.0}))
        time.sleep(5)
        order(watched, Command(kind="set_weights", weights={"candidate": 60.0}))
        watched.wait(lambda rollout: rollout.state.step == 1, 400)
        arms["stable"].append(half)
        moved = watched.wait(lambda rollout: rollout.state.phase == "keeping_previous", 600)
        assert moved.state.stable_moved
        watched.wait_for_end()
        assert watched.phase == "done", watched.said()
        ended = time.monotonic()
        before, during = seen.p99_s(begun, calm), seen.p99_s(calm, ended)
        print(f"p99 {before:.2f} s before, {during:.2f} s during, ratio {during / before:.2f}")

        # and back to version 1, given up half way
        arms["candidate"].append(WHOLE)
        watched.start(spec("vocoder", 1, gates=GOOD))
        watched.wait(lambda rollout: rollout.state.phase == "running", 200)
        order(watched, Command(kind="abort", reason="enough"))
        watched.wait_for_end()
        assert watched.phase == "rolled_back"
    everything = seen.heard + seen.stable
    assert set(everything) == {"whole", "half"}, everything
    assert not seen.mixed


@pytest.mark.parametrize("phase", ["loading", "probing", "running", "promoting", "keeping_previous"])
@pytest.mark.parametrize("who", ["server", "controller"])
def test_a_kill_in_any_state_is_resumed_from(root: Path, who: str, phase: str) -> None:
    text = spec("vocoder", 2, gates=GOOD).replace("keep_previous_s: 5", "keep_previous_s: 15")
    watched = Watched(root)
    with running_server(root) as server:
        watched.start(text)
        if phase in ("promoting", "keeping_previous"):
            watched.wait(lambda rollout: rollout.state.phase == "running", 200)
            order(watched, Command(kind="promote"))
        watched.wait(lambda rollout: rollout.state.phase == phase, 200)
        if who == "server":
            server.kill()
        else:
            os.kill(controller_pid(watched), signal.SIGKILL)
            finish(watched)
    if who == "server":
        with running_server(root):
            finish(watched)
    assert read_voice(watched.layout, VOICE).versions["vocoder"] == 2


def finish(watched: Watched) -> None:
    watched.wait(lambda rollout: rollout.state.phase in ("running", "keeping_previous", "done"), 200)
    end = time.monotonic() + 100
    while watched.phase == "running":  # refused while a server that was killed has the arm to load again
        assert time.monotonic() < end, watched.said()
        give(watched, Command(kind="promote"))
        time.sleep(0.5)
    watched.wait_for_end(200)
    assert watched.phase == "done", watched.said()
    assert watched.path()[-1] == "done"
    assert any("goes on from" in reason for kind, *_, reason in watched.events() if kind == "controller")


def order(watched: Watched, command: Command) -> None:
    """Give a command and wait until the controller has carried it out."""
    before = refusals(watched)
    give(watched, command)
    assert refusals(watched) == before, watched.said()


def give(watched: Watched, command: Command) -> None:
    """Give a command and wait until the controller has dealt with it."""
    with Store(watched.folder.database) as store:
        number = store.order(watched.id, command).id
        end = time.monotonic() + 30
        while not store.is_consumed(number):
            assert time.monotonic() < end, watched.said()
            time.sleep(0.05)


def refusals(watched: Watched) -> int:
    return sum(kind == "command_refused" for kind, *_ in watched.events())
