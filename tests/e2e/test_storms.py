"""Clients with short deadlines and clients that cancel do the engine no harm (straight at it, they kill it)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import Audio, generate, inputs_for, speak
from tests.harness import VOICE, RunningServer

pytestmark = pytest.mark.e2e

THREADS = 12


def storm(
    server: RunningServer, duration_s: float, one: Callable[[grpc_client.InferenceServerClient], str]
) -> Counter[str]:
    """Call ``one`` from 12 threads for a time and count what it returns."""
    end = time.monotonic() + duration_s
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()

    def loop() -> None:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            while time.monotonic() < end:
                outcome = one(client)
                with lock:
                    outcomes[outcome] += 1

    with ThreadPoolExecutor(THREADS) as pool:
        for running in [pool.submit(loop) for _ in range(THREADS)]:
            running.result()  # raises what a thread has raised
    return outcomes


def short_deadline(client: grpc_client.InferenceServerClient) -> str:
    try:
        client.infer(VOICE, inputs_for(grpc_client, "Too late."), client_timeout=random.uniform(0.001, 0.012))
    except InferenceServerException as error:
        return str(error.status())
    return "ok"


def cancelled(client: grpc_client.InferenceServerClient) -> str:
    done = threading.Event()
    outcome: list[str] = []

    def callback(result: object, error: InferenceServerException | None) -> None:
        outcome.append("ok" if error is None else str(error.status()))
        done.set()

    call = client.async_infer(VOICE, inputs_for(grpc_client, "Never mind."), callback)
    time.sleep(random.uniform(0.0, 0.012))
    call.cancel()
    assert done.wait(30), "a cancelled call was never answered"
    return outcome[0]


def check_unharmed(server: RunningServer, expected: Audio, engine_pid: int) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        end = time.monotonic() + 60
        while True:
            try:
                audio = speak(client, "The next request is right.", seed=1)
                break
            except InferenceServerException as error:
                # calls of callers that left are still draining; the answer must say so at once
                assert "UNAVAILABLE" in str(error.status()), error
                assert time.monotonic() < end
                time.sleep(0.2)
    np.testing.assert_array_equal(audio, expected)
    state = server.read_state()
    assert state["engine_pid"] == engine_pid
    assert state["engine_restarts"] == 0
    assert state["edge_restarts"] == 0


@pytest.mark.parametrize("duration_s", [8, pytest.param(60, marks=pytest.mark.soak)])
@pytest.mark.parametrize("one", [short_deadline, cancelled])
def test_engine_and_edge_survive(
    server: RunningServer, one: Callable[[grpc_client.InferenceServerClient], str], duration_s: float
) -> None:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        expected = speak(client, "The next request is right.", seed=1)
    engine_pid = server.read_state()["engine_pid"]
    outcomes = storm(server, duration_s, one)
    assert sum(outcomes.values()) > 100, outcomes
    check_unharmed(server, expected, engine_pid)
    status, _ = generate(server, {"text": "And by HTTP."})
    assert status == 200
