"""What dies, hangs or grows under load is found and cured, and callers see little of it."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import SENTENCES, Audio, inputs_for, speak
from tests.harness import VOICE, RunningServer, clone_root, running_server
from voxrepo.supervisor.stub_watch import model_of

pytestmark = pytest.mark.e2e

CLIENTS = 3
CURE_S = 30.0
"""Generous: the machine that runs the tests may be busy. What it took is printed."""


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    return clone_root(voice_root, tmp_path / "root")


def stubs_of(server: RunningServer, model: str) -> list[psutil.Process]:
    return [stub for stub, words in living_stubs(server) if model_of(words) == model]


def living_stubs(server: RunningServer) -> list[tuple[psutil.Process, list[str]]]:
    """Stubs with their command lines."""
    found = []
    for child in psutil.Process(server.read_state()["engine_pid"]).children():
        with suppress(psutil.Error):  # one that has ended
            if model_of(child.cmdline()) is not None:
                found.append((child, child.cmdline()))
    return found


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> float:
    """Wait; seconds that it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - started


@dataclass
class Load:
    """What clients that never stop asking have got."""

    expected: dict[str, Audio]
    outcomes: Counter[str] = field(default_factory=Counter)
    longest_s: float = 0.0
    texts_of_errors: set[str] = field(default_factory=set)

    def wait_for_more(self) -> None:
        """Wait until every client may have had another right answer."""
        wanted = self.outcomes["right"] + 2 * CLIENTS
        wait_until(lambda: self.outcomes["right"] >= wanted, 30, "requests are answered")


@contextmanager
def unary_load(server: RunningServer, clients: int = CLIENTS) -> Iterator[Load]:
    """Clients that speak the same sentences with the same seed, over and over."""
    texts = SENTENCES[:clients]
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        load = Load({text: speak(client, text, seed=1) for text in texts})
    stop = threading.Event()
    lock = threading.Lock()

    def run(text: str) -> None:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            while not stop.is_set():
                started = time.monotonic()
                error_text = ""
                try:
                    audio = speak(client, text, seed=1)
                    outcome = "right" if np.array_equal(audio, load.expected[text]) else "wrong"
                except InferenceServerException as error:
                    outcome, error_text = str(error.status()), str(error.message())
                    time.sleep(0.1)
                with lock:
                    load.outcomes[outcome] += 1
                    load.longest_s = max(load.longest_s, time.monotonic() - started)
                    if error_text:
                        load.texts_of_errors.add(error_text)

    threads = [threading.Thread(target=run, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def numbers_on_page(server: RunningServer) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{server.metrics_url}", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def is_well(state: dict[str, Any]) -> bool:
    return state.get("phase") == "ready" and not state["held"]


def test_dead_stubs_are_replaced_under_load_and_the_engine_goes_on(root: Path) -> None:
    with running_server(root) as server:
        engine_pid = server.read_state()["engine_pid"]
        with unary_load(server) as load:
            for number, stage in enumerate(("text_frontend", "acoustic", "vocoder"), start=1):
                restarts = server.read_state()["stub_restarts"]
                victim = stubs_of(server, f"{VOICE}.{stage}")[0]
                victim.kill()
                found_s = wait_until(lambda: server.read_state()["held"] == [VOICE], 5, "the dead stub is found")
                cured_s = wait_until(lambda: is_well(server.read_state()), CURE_S, "the voice is cured")
                print(f"{stage}: found after {found_s:.1f} s, cured after {found_s + cured_s:.1f} s")
                assert found_s < 2
                assert server.read_state()["stub_restarts"] > restarts
                load.wait_for_more()
                assert number <= server.read_state()["stub_restarts"]
        print(load.outcomes, f"longest {load.longest_s:.1f} s", load.texts_of_errors)
        assert set(load.outcomes) <= {"right", "StatusCode.UNAVAILABLE"}, load.texts_of_errors
        # clients ask one after the other, so at most those in flight at each death are concerned
        assert load.outcomes["StatusCode.UNAVAILABLE"] <= 3 * CLIENTS, load.texts_of_errors
        state = server.read_state()
        assert (state["engine_pid"], state["engine_restarts"]) == (engine_pid, 0)
        page = numbers_on_page(server)
        assert page["voxrepo_stub_restarts_total"] == state["stub_restarts"]
        assert page['voxrepo_engine_restarts_total{reason="ended"}'] == 0
        assert page["voxrepo_engine_memory_bytes"] > 100 * 2**20


def not_ready(server: RunningServer) -> bool:
    return bool(server.read_state()["models"][0]["state"] != "ready")


@pytest.mark.soak
def test_a_model_whose_stubs_die_again_and_again_is_given_up_with_the_reason(root: Path) -> None:
    with running_server(root) as server:
        engine_pid = server.read_state()["engine_pid"]
        for deaths in range(1, 6):
            (stub,) = stubs_of(server, f"{VOICE}.text_frontend")
            stub.kill()
            wait_until(lambda: server.read_state()["held"] or not_ready(server), 5, "the dead stub is found")
            wait_until(lambda: is_well(server.read_state()) or not_ready(server), CURE_S, "the voice is cured")
            assert not_ready(server) == (deaths == 5)
        (model,) = server.read_state()["models"]
        assert model["state"] == "failed"
        assert "died 5 times" in model["reason"]
        assert server.read_state()["engine_pid"] == engine_pid
        wait_until(lambda: server.read_state()["phase"] == "degraded", 10, "degraded")
        refused = pytest.raises(InferenceServerException, match="is not served")
        with grpc_client.InferenceServerClient(server.grpc_url) as client, refused:
            speak(client, "Nobody is here.")
        wait_until(lambda: not stubs_of(server, f"{VOICE}.vocoder"), 20, "its other stages are unloaded, too")


@pytest.mark.soak
def test_an_engine_that_is_stopped_is_noticed_and_replaced(root: Path) -> None:
    with running_server(root, "--engine-timeout", "4") as server:
        before = server.read_state()
        os.kill(before["engine_pid"], signal.SIGSTOP)
        noticed_s = wait_until(lambda: server.read_state()["phase"] != "ready", 10, "the hang is noticed")
        assert 3 < noticed_s < 8
        wait_until(lambda: server.read_state()["engine_restarts"] == 1, 60, "the engine is restarted")
        wait_until(lambda: is_well(server.read_state()), 60, "the engine is back")
        after = server.read_state()
        assert after["engine_pid"] != before["engine_pid"]
        assert not psutil.pid_exists(before["engine_pid"])
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            assert len(speak(client, "Back again.")) > 0


@pytest.mark.soak
def test_callers_of_an_engine_that_dies_wait_for_the_next_one(root: Path) -> None:
    with running_server(root) as server:
        before = server.read_state()
        with unary_load(server) as load:
            os.kill(before["engine_pid"], signal.SIGKILL)
            wait_until(lambda: server.read_state()["engine_restarts"] == 1, 60, "the engine is restarted")
            back_s = wait_until(lambda: is_well(server.read_state()), 60, "the voice is back")
            load.wait_for_more()
        print(load.outcomes, f"back after {back_s:.1f} s, longest {load.longest_s:.1f} s", load.texts_of_errors)
        assert set(load.outcomes) <= {"right", "StatusCode.UNAVAILABLE"}, load.texts_of_errors
        assert load.outcomes["StatusCode.UNAVAILABLE"] <= CLIENTS
        # nothing is left of the old one
        regions = {region.name for region in Path("/dev/shm").glob(f"{server.workspace.shm_prefix}*")}
        assert regions == {words[2] for _, words in living_stubs(server)}


def test_a_stream_is_finished_before_the_server_ends(root: Path) -> None:
    """The edge stops accepting, the stream goes on to its end, and the engine ends last."""
    text = " ".join(SENTENCES[:12])
    answers: list[tuple[Any, InferenceServerException | None]] = []
    with running_server(root) as server:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            expected = speak(client, text, seed=1)
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            client.start_stream(lambda result, error: answers.append((result, error)))
            client.async_stream_infer(f"{VOICE}.stream", inputs_for(grpc_client, text, seed=1))
            wait_until(lambda: answers, 30, "the first piece comes")
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: server.read_state().get("phase") == "draining", 10, "it drains")
            pieces_then = len(answers)
            refused = pytest.raises(InferenceServerException, match="UNAVAILABLE")
            with grpc_client.InferenceServerClient(server.grpc_url) as late, refused:
                speak(late, "Too late.")
            client.stop_stream()  # waits for what was asked
        assert server.process.wait(60) == 0
    assert not [error for _, error in answers if error is not None]
    audio = np.concatenate([result.as_numpy("audio")[0] for result, _ in answers])
    np.testing.assert_array_equal(audio, expected)
    assert len(answers) > pieces_then, "it had ended before: the test shows nothing"


HOARDER = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.hoard = []

    def execute(self, requests):
        self.hoard.append(bytearray(b"x" * (20 << 20)))
        count = pb_utils.Tensor("y", np.array([len(self.hoard)], np.float32))
        return [pb_utils.InferenceResponse([count]) for _ in requests]
"""
HOARDER_CONFIG = """backend: "python"
input { name: "x" data_type: TYPE_FP32 dims: [1] }
output { name: "y" data_type: TYPE_FP32 dims: [1] }
instance_group { count: 1 kind: KIND_CPU }
"""


def hoard(client: grpc_client.InferenceServerClient) -> float:
    """Let the model keep another 20 MiB; how many times that it holds."""
    tensor = grpc_client.InferInput("x", [1], "FP32")
    tensor.set_data_from_numpy(np.zeros(1, np.float32))
    return float(client.infer("hoarder", [tensor]).as_numpy("y")[0])


@pytest.mark.soak
def test_an_engine_above_its_memory_limit_is_replaced_without_failing_a_request(root: Path) -> None:
    folder = root / "model_repository" / "hoarder"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(HOARDER, encoding="utf-8")
    (folder / "config.pbtxt").write_text(HOARDER_CONFIG, encoding="utf-8")
    with running_server(root, "--engine-memory-limit", "1500") as server:
        before = server.read_state()
        with unary_load(server) as load, grpc_client.InferenceServerClient(server.grpc_url) as client:
            held_mib = wait_for_memory(server)
            assert held_mib < 0.9 * 1500
            for _ in range(int((1500 - held_mib) / 20) + 10):
                hoard(client)
            wait_until(lambda: server.read_state()["engine_recycles"] == 1, 30, "the engine is recycled")
            wait_until(lambda: is_well(server.read_state()), 60, "the engine is back")
            load.wait_for_more()
            assert hoard(client) == 1
        print(load.outcomes, f"longest {load.longest_s:.1f} s", load.texts_of_errors)
        assert set(load.outcomes) == {"right"}, load.texts_of_errors
        after = server.read_state()
        assert (after["engine_recycles"], after["engine_restarts"]) == (1, 0)
        assert after["engine_pid"] != before["engine_pid"]
        assert numbers_on_page(server)['voxrepo_engine_restarts_total{reason="memory"}'] == 1


def wait_for_memory(server: RunningServer) -> float:
    """MiB of the engine."""
    wait_until(lambda: server.read_state()["engine_memory_bytes"], 20, "the memory is measured")
    return float(server.read_state()["engine_memory_bytes"]) / 2**20
