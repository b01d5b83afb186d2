"""Memory of the whole server: bounded, and flat over mixed lengths."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import SENTENCES, speak
from tests.harness import RunningServer

pytestmark = [pytest.mark.e2e]

LIMIT_BYTES = 2 * 1024**3
MAX_GROWTH = 0.05
"""Of the memory after the first fifth of the requests, when every length class has been seen."""


def memory_bytes(server: RunningServer) -> int:
    """Proportional set size of the supervisor and all its descendants: shared pages count once."""
    total = 0
    for process in server.tree():
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def mixed_text(order: random.Random) -> str:
    """A word to a page, so that lengths rarely repeat."""
    kind = order.random()
    if kind < 0.5:
        words = order.choice(SENTENCES).split()
        return " ".join(words[: order.randint(1, len(words))])
    if kind < 0.95:
        return order.choice(SENTENCES)
    return " ".join(order.sample(SENTENCES, order.randint(2, 8)))


def speak_many(server: RunningServer, count: int, seed: int) -> None:
    """Mixed requests from four clients."""
    order = random.Random(seed)
    texts = [mixed_text(order) for _ in range(count)]
    with grpc_client.InferenceServerClient(server.grpc_url) as client, ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda text: speak(client, text), texts):
            pass


@pytest.mark.soak
def test_a_server_with_one_voice_fits_into_two_gibibytes(server: RunningServer) -> None:
    speak_many(server, 30, seed=1)
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        speak(client, " ".join(SENTENCES * 3)[:4000])
    assert memory_bytes(server) < LIMIT_BYTES


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_memory_is_flat_over_5000_mixed_requests(server: RunningServer) -> None:
    # every length class once, so that what grows after this grows for ever
    speak_many(server, 250, seed=99)
    marks = [memory_bytes(server)]
    for part in range(5):
        speak_many(server, 1000, seed=part)
        marks.append(memory_bytes(server))
        print(f"after {(part + 1) * 1000} requests: {marks[-1] / 1024**2:.0f} MiB")
    assert marks[-1] < LIMIT_BYTES
    assert marks[-1] <= marks[0] * (1 + MAX_GROWTH), marks
