"""Arms of rollouts on one server, by plans that the test writes: users of the stable versions notice nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.arm_versions import (
    Planner,
    add_unreadable_vocoder,
    add_vocoder,
    loaded_versions,
    stub_of,
    with_vocoder,
)
from tests.e2e.calls import SENTENCES, Audio, inputs_for, speak
from tests.e2e.streams import listen
from tests.e2e.test_recovery import wait_until
from tests.harness import VOICE, RunningServer, clone_root, edit_yaml, running_server, voxrepo
from voxrepo.repository.layout import Layout
from voxrepo.rollout.pins import pin_versions
from voxrepo.supervisor.arms import SUSPECT_S

pytestmark = pytest.mark.e2e

CLIENTS = 2
PAUSE_S = 0.2
"""Between a client's requests: what is loaded meanwhile needs the processor, too."""
HALF = with_vocoder(2)
"""Half as loud as the stable versions."""


def prepared_root(voice_root: Path, path: Path) -> Path:
    """A root with version 2 of the vocoder, half as loud."""
    root = clone_root(voice_root, path)
    add_vocoder(root, 2, 0.5)
    # one process per stage, and nothing to be measured at each load
    settings = {
        f"stages__{stage}__{key}": 1 for stage in ("acoustic", "vocoder") for key in ("instances", "unit_batch")
    }
    edit_yaml(root / "ensembles" / VOICE / "voice.yaml", **settings)
    return root


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    return prepared_root(voice_root, tmp_path / "root")


@pytest.fixture(scope="module")
def shared(voice_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server for all tests that leave it as they find it; its version 3 is silent, and version 4 does not load."""
    root = prepared_root(voice_root, tmp_path_factory.mktemp("arms") / "root")
    add_vocoder(root, 3, 0.005)
    add_unreadable_vocoder(root, 4)
    with running_server(root) as server:
        yield server


@pytest.fixture
def planner(shared: RunningServer, request: pytest.FixtureRequest) -> Iterator[Planner]:
    """Plans for the shared server, which serves the voice's own versions afterwards."""
    planner = Planner(shared, rollout=request.node.name[:40])
    yield planner
    planner.no_plan()
    planner.wait()
    wait_until(lambda: loaded_versions(shared) == {1}, 30, "only the voice's own version is left")


def is_half(audio: Audio, whole: Audio) -> bool:
    return audio.shape == whole.shape and bool(np.abs(audio * 2.0 - whole).max() <= 2.0)


@dataclass
class Load:
    """What clients that never stop asking have heard."""

    whole: dict[str, Audio]
    heard: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0

    def wait_for(self, what: str, count: int = 2 * CLIENTS) -> None:
        """Wait until this was heard so often again."""
        wanted, end = self.heard[what] + count, time.monotonic() + 60
        while self.heard[what] < wanted:
            assert time.monotonic() < end, (what, self.heard)
            time.sleep(0.02)


@contextmanager
def load(server: RunningServer) -> Iterator[Load]:
    """Unary clients and one stream, each with one sentence and a fixed seed, over and over."""
    texts = SENTENCES[: CLIENTS + 1]
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        seen = Load({text: speak(client, text, seed=1) for text in texts})
    stop, lock = threading.Event(), threading.Lock()

    def run(text: str, streams: bool) -> None:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            while not stop.is_set():
                started = time.monotonic()
                try:
                    audio = listen(server, text, seed=1).joined if streams else speak(client, text, seed=1)
                    whole = seen.whole[text]
                    what = "whole" if np.array_equal(audio, whole) else "half" if is_half(audio, whole) else "wrong"
                except InferenceServerException as error:
                    what = f"failed: {error}"
                took_s = time.monotonic() - started
                time.sleep(PAUSE_S)
                with lock:
                    seen.heard[what] += 1
                    seen.longest_s = max(seen.longest_s, took_s)

    threads = [threading.Thread(target=run, args=(text, n == CLIENTS)) for n, text in enumerate(texts)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
        print(dict(seen.heard), f"longest {seen.longest_s:.2f} s")


def pinned(server: RunningServer, text: str, arm: str) -> tuple[Audio, dict[str, object]]:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        result = client.infer(VOICE, inputs_for(grpc_client, text, seed=1), parameters={"arm": arm})
        parameters = {key: value.string_param for key, value in result.get_response().parameters.items()}
        audio: Audio = result.as_numpy("audio")[0]
        return audio, parameters


def test_an_arm_is_loaded_answers_and_becomes_stable_without_a_failed_request(
    shared: RunningServer, planner: Planner
) -> None:
    server = shared
    with load(server) as seen:
        planner.plan(arms={"candidate": HALF}, weights={"candidate": 0.0})
        status = planner.wait()
        assert status.arms["candidate"].state == "ready", status
        assert loaded_versions(server) == {1, 2}
        seen.wait_for("whole")
        assert set(seen.heard) == {"whole"}

        text = SENTENCES[0]
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            by_name = speak(client, text, voice=f"{VOICE}.candidate", seed=1)
        by_pin, parameters = pinned(server, text, "candidate")
        assert is_half(by_name, seen.whole[text])
        assert np.array_equal(by_pin, by_name)
        assert parameters["arm"] == "candidate"

        planner.plan(arms={"candidate": HALF}, weights={"candidate": 100.0})
        planner.wait()
        seen.wait_for("half")
        planner.plan(arms={"candidate": HALF}, weights={"candidate": 50.0})
        planner.wait()
        seen.wait_for("half")
        seen.wait_for("whole")

        planner.plan(stable=HALF, arms={"candidate": HALF, "previous": with_vocoder(1)})
        status = planner.wait()
        assert status.stable == HALF, status
        planner.plan(stable=HALF, arms={"previous": with_vocoder(1)})
        planner.wait(lambda status: set(status.voices[VOICE].arms) == {"previous"})
        assert loaded_versions(server) == {1, 2}
        whole_before = seen.heard["whole"]
        seen.wait_for("half")
        assert np.array_equal(pinned(server, text, "previous")[0], seen.whole[text])
        planner.plan(stable=HALF)
        planner.wait(lambda status: not status.voices[VOICE].arms)
        assert seen.heard["whole"] == whole_before
        end = time.monotonic() + 10
        while loaded_versions(server) != {2}:
            assert time.monotonic() < end, loaded_versions(server)
            time.sleep(0.05)
    assert set(seen.heard) == {"whole", "half"}
    assert not [folder for folder in (server.root / "ensembles").iterdir() if folder.name != VOICE]


def test_broken_arms_are_refused_with_the_reason_while_the_voice_serves(
    shared: RunningServer, planner: Planner
) -> None:
    server = shared
    restarts = server.read_state()["stub_restarts"]
    with load(server) as seen:

        def reason_of(version: int, rollout: str) -> str:
            planner.plan(arms={"candidate": with_vocoder(version)}, rollout=rollout)
            arm = planner.wait().arms["candidate"]
            assert arm.state == "failed", arm
            return str(arm.reason)

        assert "silent" in reason_of(3, "a")
        planner.no_plan()  # before the last process of the arm has ended, which nobody takes for a death
        wait_until(lambda: loaded_versions(server) == {1}, 20, "the arm's process has ended")
        time.sleep(1)  # for the watch to see it
        assert server.read_state()["stub_restarts"] == restarts
        assert "generator.onnx" in reason_of(4, "b")
        assert "version directory is missing" in reason_of(9, "c")

        killed: list[int] = []

        def kill_at_load() -> None:
            end = time.monotonic() + 30
            while not killed and time.monotonic() < end:
                pid = stub_of(server, 2)
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                time.sleep(0.001)

        killer = threading.Thread(target=kill_at_load)
        killer.start()
        print(reason_of(2, "d"))
        killer.join()
        assert killed
        seen.wait_for("whole")
        state = server.read_state()
        assert (state["phase"], state["engine_restarts"], state["held"]) == ("ready", 0, [])
        assert "candidate" in {arm["name"].rpartition(".")[2] for arm in state["arms"] if arm["state"] == "failed"}
        planner.no_plan()
        planner.wait()
        assert loaded_versions(server) == {1}
    assert set(seen.heard) == {"whole"}


def test_an_arm_whose_process_dies_is_dropped_and_the_voice_is_never_held(
    shared: RunningServer, planner: Planner
) -> None:
    server = shared
    restarts = server.read_state()["stub_restarts"]
    planner.plan(arms={"candidate": HALF}, weights={"candidate": 0.0})
    assert planner.wait().arms["candidate"].state == "ready"
    time.sleep(0.5)  # for its stubs to be seen
    with load(server) as seen:
        pid = stub_of(server, 2)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        arm = planner.wait(lambda status: status.voices[VOICE].arms["candidate"].state == "failed")
        reason = arm.arms["candidate"].reason
        assert "vocoder version 2 died" in reason
        held = []
        end = time.monotonic() + 10
        while loaded_versions(server) != {1}:
            held += server.read_state()["held"]
            assert time.monotonic() < end, loaded_versions(server)
            time.sleep(0.01)
        seen.wait_for("whole")
        assert not held
        assert server.read_state()["stub_restarts"] == restarts
    said = voxrepo("status", "--root", str(server.root)).stderr
    assert f"{VOICE}.candidate is not served: {reason}" in said
    assert set(seen.heard) == {"whole"}
    with pytest.raises(InferenceServerException, match="candidate"):
        pinned(server, SENTENCES[0], "candidate")


def test_versions_are_exchanged_one_after_the_other_where_both_do_not_fit(
    shared: RunningServer, planner: Planner
) -> None:
    server = shared
    with load(server) as seen:
        planner.plan(stable=HALF, resource_preserving=True)
        assert planner.wait().stable == HALF
        seen.wait_for("half")
        assert loaded_versions(server) == {2}
    assert set(seen.heard) == {"whole", "half"}


@pytest.mark.soak
def test_arms_come_back_with_what_they_share_and_with_the_engine(root: Path) -> None:
    with running_server(root) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        whole = speak(client, SENTENCES[0], seed=1)
        planner = Planner(server)
        planner.plan(arms={"candidate": HALF}, weights={"candidate": 0.0})
        planner.wait()
        time.sleep(SUSPECT_S)  # or the arm is to blame for what the test does
        pid = stub_of(server, 1)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server.read_state()["held"] == [VOICE], 10, "the dead stub is found")
        wait_until(lambda: not server.read_state()["held"], 60, "the voice is cured")
        assert is_half(pinned(server, SENTENCES[0], "candidate")[0], whole)
        assert loaded_versions(server) == {1, 2}

        os.kill(server.read_state()["engine_pid"], signal.SIGKILL)
        wait_until(lambda: server.read_state()["engine_restarts"] == 1, 90, "the engine is restarted")
        planner.wait(lambda status: status.voices[VOICE].arms["candidate"].state == "ready")
        assert is_half(pinned(server, SENTENCES[0], "candidate")[0], whole)
        assert np.array_equal(speak(client, SENTENCES[0], seed=1), whole)


@pytest.mark.soak
def test_a_server_that_was_away_at_the_end_of_a_promotion_takes_up_the_pinned_versions(root: Path) -> None:
    with running_server(root) as server, load(server) as seen:
        planner = Planner(server)
        planner.plan(arms={"candidate": HALF}, weights={"candidate": 0.0})
        planner.wait()
        pid = server.read_state()["pid"]
        os.kill(pid, signal.SIGSTOP)
        planner.plan(stable=HALF, arms={"candidate": HALF})
        pin_versions(Layout.of(root), VOICE, HALF)
        planner.no_plan()
        os.kill(pid, signal.SIGCONT)
        planner.wait()
        seen.wait_for("half")
        wait_until(lambda: loaded_versions(server) == {2}, 20, "the old version is unloaded")
    assert set(seen.heard) == {"whole", "half"}
