"""Storms of clients that do not keep to the protocols: nobody else notices, and nothing is left of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e import wire
from tests.e2e.calls import Audio, speak
from tests.e2e.streams import listen, wait_for_quiet
from tests.e2e.test_memory import memory_bytes
from tests.harness import RunningServer

pytestmark = pytest.mark.e2e

THREADS = 12
MOST_GROWTH_BYTES = 60 * 2**20
ACTS: dict[wire.Act, set[str]] = {
    wire.half_open: {"left"},
    wire.slow_reader: {"200", "503"},
    wire.garbage: {"sent"},
    wire.tiny_chunks: {"200", "503"},
    wire.large_headers: {"400", "closed", "RESOURCE_EXHAUSTED", "OK", "UNAVAILABLE"},
    wire.wrong_lengths: {"400", "closed"},
    wire.unknown_methods: {"400", "404", "405", "UNIMPLEMENTED"},
    wire.triton_grpc_error: {"answered", "CANCELLED", "nothing"},
    wire.control_calls: {"403", "PERMISSION_DENIED"},
    wire.stream_cancels: {"answered", "CANCELLED", "DEADLINE_EXCEEDED"},
}
"""What may come of each."""


def pids_of(server: RunningServer) -> set[int]:
    return {process.pid for process in server.tree()}


def sockets_of(server: RunningServer) -> int:
    count = 0
    for process in server.tree():
        connections = process.net_connections("inet")
        count += sum(connection.status != psutil.CONN_TIME_WAIT for connection in connections)
    return count


class Bystander:
    """A client that keeps to everything; what came of its requests, and how long the longest took."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._expected = self._speak()
        self.outcomes: Counter[str] = Counter()
        self.longest_s = 0.0

    def _speak(self) -> Audio:
        with grpc_client.InferenceServerClient(self._server.grpc_url) as client:
            return speak(client, wire.SENTENCE, seed=1)

    def ask(self) -> None:
        """Ask once for an answer and once for a stream."""
        for way in (self._speak, lambda: listen(self._server, wire.SENTENCE, seed=1).joined):
            began_s = time.monotonic()
            try:
                outcome = "right" if np.array_equal(way(), self._expected) else "wrong"
            except InferenceServerException as error:
                outcome = "refused" if "UNAVAILABLE" in str(error) or "try again" in str(error) else str(error)
            self.outcomes[outcome] += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask again and again."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(0.2):
                self.ask()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(120)


def storm(server: RunningServer, act: wire.Act, duration_s: float) -> Counter[str]:
    """12 threads that do the same for a time; what came of it."""
    end = time.monotonic() + duration_s

    def loop() -> Counter[str]:
        outcomes: Counter[str] = Counter()
        while time.monotonic() < end:
            outcomes[act(server)] += 1
        return outcomes

    with ThreadPoolExecutor(THREADS) as pool:
        return sum((done.result() for done in [pool.submit(loop) for _ in range(THREADS)]), Counter())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("duration_s", [2, pytest.param(60, marks=pytest.mark.soak)])
@pytest.mark.parametrize("act", list(ACTS), ids=lambda act: act.__name__)
def test_others_are_served_right_and_nothing_is_left(server: RunningServer, act: wire.Act, duration_s: float) -> None:
    bystander = Bystander(server)
    storm(server, act, 1)  # pools and buffers have their size
    wait_for_quiet(server)
    pids, sockets, memory = pids_of(server), sockets_of(server), memory_bytes(server)
    state = server.read_state()
    with bystander.asking():
        outcomes = storm(server, act, duration_s)
    wait_for_quiet(server, 30)
    print(outcomes, bystander.outcomes, f"longest {bystander.longest_s:.2f} s")
    assert set(outcomes) <= ACTS[act]
    assert set(bystander.outcomes) <= {"right", "refused"}
    assert bystander.outcomes["right"] > 0
    refused = bystander.outcomes["refused"]
    bystander.ask()
    assert bystander.outcomes["refused"] == refused, "it is quiet, and yet it refuses"
    assert pids_of(server) == pids
    after = server.read_state()
    for key in ("engine_restarts", "edge_restarts", "stub_restarts", "phase"):
        assert after[key] == state[key]
    end = time.monotonic() + 15
    while sockets_of(server) > sockets + 1 and time.monotonic() < end:  # the bystander's own may not be closed yet
        time.sleep(0.2)
    assert sockets_of(server) <= sockets + 1
    grown = memory_bytes(server) - memory
    print(f"memory: {grown / 2**20:+.1f} MiB, sockets: {sockets} -> {sockets_of(server)}")
    assert grown < MOST_GROWTH_BYTES
