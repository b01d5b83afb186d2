"""Nobody gets another's audio, and what else is in flight changes nothing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import SENTENCES, Audio, speak
from tests.harness import VOICE, RunningServer, clone_root, edit_yaml, running_server

pytestmark = pytest.mark.e2e

MAX_BATCHED_DIFFERENCE = 8
"""LSB of INT16: kernels of different batch sizes add in a different order."""


def different_texts(count: int) -> list[str]:
    """Texts of very different lengths, no two alike."""
    texts = []
    for number in range(count):
        parts = [SENTENCES[(number * 7 + k) % len(SENTENCES)] for k in range(1 + number % 3)]
        texts.append(f"Number {number}. " + " ".join(parts) if number % 4 else f"Short {number}!")
    return texts


def all_at_once(server: RunningServer, texts: list[str]) -> list[Audio]:
    """Audio of every text, all requests in flight together."""
    with grpc_client.InferenceServerClient(server.grpc_url) as client, ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(lambda numbered: speak(client, numbered[1], seed=numbered[0]), enumerate(texts)))


def one_by_one(server: RunningServer, texts: list[str]) -> list[Audio]:
    """Audio of every text, one request at a time."""
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        return [speak(client, text, seed=number) for number, text in enumerate(texts)]


@pytest.mark.soak
def test_64_texts_at_once_equal_each_alone_to_the_bit(server: RunningServer) -> None:
    texts = different_texts(64)
    alone = one_by_one(server, texts)
    together = all_at_once(server, texts)
    for number, (a, b) in enumerate(zip(alone, together, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=texts[number])


def check_under_load(server: RunningServer, clients: int, duration_s: float) -> int:
    """Mixed texts from many clients for a time, every answer compared with its solo run."""
    texts = different_texts(24)
    expected = one_by_one(server, texts)
    end = time.monotonic() + duration_s
    wrong: list[str] = []
    answered = 0
    lock = threading.Lock()

    def client_loop(number: int) -> None:
        nonlocal answered
        order = random.Random(number)
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            while time.monotonic() < end:
                index = order.randrange(len(texts))
                audio = speak(client, texts[index], seed=index)
                with lock:
                    answered += 1
                    if not np.array_equal(audio, expected[index]):
                        wrong.append(texts[index])

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client_loop, range(clients)))  # raises what a client has raised
    assert not wrong
    return answered


@pytest.mark.soak
def test_every_answer_under_mixed_load_is_its_own(server: RunningServer) -> None:
    assert check_under_load(server, clients=8, duration_s=15) > 16


@pytest.mark.soak
def test_every_answer_under_two_minutes_of_mixed_load_is_its_own(server: RunningServer) -> None:
    assert check_under_load(server, clients=8, duration_s=120) > 100


@pytest.fixture(scope="module")
def batching_server(voice_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The voice with dynamic batching on and units packed together."""
    root = clone_root(voice_root, tmp_path_factory.mktemp("batching") / "root")
    settings = {"instances": 1, "max_batch_size": 8, "unit_batch": 4, "max_queue_delay_us": 20_000}
    changes = {f"stages__{stage}__{key}": value for stage in ("acoustic", "vocoder") for key, value in settings.items()}
    edit_yaml(root / "ensembles" / VOICE / "voice.yaml", **changes)
    with running_server(root) as running:
        yield running


def largest_batch(server: RunningServer, model: str) -> int:
    """Largest batch that the engine's statistics show for a model."""
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        statistics = client.get_inference_statistics(model)
    return max((batch.batch_size for batch in statistics.model_stats[0].batch_stats), default=0)


@pytest.mark.soak
def test_dynamic_batches_form_and_rows_come_back_to_their_owners(batching_server: RunningServer) -> None:
    texts = different_texts(32)
    alone = one_by_one(batching_server, texts)
    assert largest_batch(batching_server, f"{VOICE}.vocoder") == 1
    together = all_at_once(batching_server, texts)
    for stage in ("acoustic", "vocoder"):
        assert largest_batch(batching_server, f"{VOICE}.{stage}") > 1
    for text, a, b in zip(texts, alone, together, strict=True):
        assert len(a) == len(b), text
        assert np.abs(a.astype(np.int32) - b).max() <= MAX_BATCHED_DIFFERENCE, text


@pytest.mark.soak
def test_a_short_request_does_not_wait_for_a_long_one_in_its_batch(
    voice_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = clone_root(voice_root, tmp_path_factory.mktemp("own-end") / "root")
    settings = {"instances": 1, "max_batch_size": 2, "unit_batch": 1, "max_queue_delay_us": 1_000_000}
    edit_yaml(
        root / "ensembles" / VOICE / "voice.yaml",
        **{f"stages__acoustic__{key}": value for key, value in settings.items()},
    )
    texts = {"long": " ".join(SENTENCES[:10]), "short": "Yes."}
    with running_server(root) as running, grpc_client.InferenceServerClient(running.grpc_url) as client:
        for _ in range(6):  # on a busy machine the two may not meet within the batcher's delay
            ended: dict[str, float] = {}

            def ask(name: str, ended: dict[str, float] = ended) -> None:
                speak(client, texts[name])
                ended[name] = time.monotonic()

            with ThreadPoolExecutor(2) as pool:
                for asked in [pool.submit(ask, name) for name in texts]:
                    asked.result()
            if largest_batch(running, f"{VOICE}.acoustic") == 2:
                break
        else:
            pytest.fail("the two never shared a batch")
    assert ended["long"] - ended["short"] > 0.2
