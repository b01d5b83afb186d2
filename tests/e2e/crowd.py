"""Many clients that speak now and then, as users do, and what each of them heard."""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import SENTENCES, Audio, inputs_for, speak
from tests.e2e.streams import OWN_CONNECTION, STREAM
from tests.harness import VOICE, RunningServer

Arms = dict[str, list[dict[str, int]]]
UNARY = 16
STREAMS = 8
ANSWER_LIMIT_S = 120
"""For one piece of a stream."""


@dataclass
class Crowd:
    """What was heard.

    Attributes:
        whole: by text, what the stable versions say.
        heard: how often: ``whole``, ``half`` (as loud), ``other``, and failures in words.
        stable: likewise, of those that asked for the stable arm; they shall notice nothing.
        mixed: answers whose versions no arm has.
        took: moments and seconds of all answers that came.
        failures: moment, number of the client, whether it asked for the stable arm, and what happened.
    """

    whole: dict[str, Audio]
    arms: Arms
    heard: Counter[str] = field(default_factory=Counter)
    stable: Counter[str] = field(default_factory=Counter)
    mixed: list[str] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    failures: list[tuple[float, int, bool, str]] = field(default_factory=list)

    def p99_s(self, since: float, until: float) -> float:
        """Of answers that ended in between, on the clock of ``time.monotonic``."""
        found = [seconds for at, seconds in list(self.took) if since <= at < until]
        return float(np.percentile(found, 99)) if found else float("nan")

    def kind(self, text: str, audio: Audio) -> str:
        whole = self.whole[text]
        if np.array_equal(audio, whole):
            return "whole"
        is_half = audio.shape == whole.shape and bool(np.abs(audio * 2.0 - whole).max() <= 2.0)
        return "half" if is_half else "other"


@contextmanager
def crowd(server: RunningServer, arms: Arms, pause_s: float) -> Iterator[Crowd]:
    """Sixteen unary clients and eight streams; every other one asks for the stable arm.

    Args:
        server: that they call.
        arms: versions by arm of which answers may tell; more may come.
        pause_s: between a client's requests, on average.
    """
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        seen = Crowd({text: speak(client, text, seed=1) for text in SENTENCES[: UNARY + STREAMS]}, arms)
    stop, lock = threading.Event(), threading.Lock()

    def run(number: int) -> None:
        text = list(seen.whole)[number % len(seen.whole)]
        is_stable = number % 2 == 0
        pauses = random.Random(number)
        call = _stream if number >= UNARY else _infer
        while not stop.wait(pauses.uniform(0, 2 * pause_s)):
            started = time.monotonic()
            facts: list[tuple[str, dict[str, int]]] = []
            try:
                what = seen.kind(text, call(server, text, {"arm": "stable"} if is_stable else {}, facts))
            except InferenceServerException as error:
                what = f"failed: {error}"
            except Exception as error:  # a client that ends unseen would pass for one that notices nothing
                what = f"failed: {type(error).__name__} {error}"
            ended = time.monotonic()
            with lock:
                (seen.stable if is_stable else seen.heard)[what] += 1
                seen.mixed += [f"{arm} {versions}" for arm, versions in facts if versions not in seen.arms.get(arm, [])]
                if what.startswith("failed"):
                    seen.failures.append((ended, number, is_stable, what))
                else:
                    seen.took.append((ended, ended - started))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(UNARY + STREAMS)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * ANSWER_LIMIT_S)
        assert not any(thread.is_alive() for thread in threads), "clients still wait for answers"
        print(dict(seen.heard), dict(seen.stable), seen.mixed[:5], seen.failures[:10])


def _note(response: object, facts: list[tuple[str, dict[str, int]]]) -> None:
    parameters = response.parameters  # type: ignore[attr-defined]
    if "arm" in parameters:
        facts.append((parameters["arm"].string_param, json.loads(parameters["versions"].string_param)))


def _infer(
    server: RunningServer, text: str, parameters: dict[str, str], facts: list[tuple[str, dict[str, int]]]
) -> Audio:
    with grpc_client.InferenceServerClient(server.grpc_url, channel_args=list(OWN_CONNECTION)) as client:
        result = client.infer(VOICE, inputs_for(grpc_client, text, seed=1), parameters=parameters)
        _note(result.get_response(), facts)
        audio: Audio = result.as_numpy("audio")[0]
        return audio


def _stream(
    server: RunningServer, text: str, parameters: dict[str, str], facts: list[tuple[str, dict[str, int]]]
) -> Audio:
    answers: queue.Queue[tuple[object, InferenceServerException | None]] = queue.Queue()
    pieces: list[Audio] = []
    with grpc_client.InferenceServerClient(server.grpc_url, channel_args=list(OWN_CONNECTION)) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(
            STREAM, inputs_for(grpc_client, text, seed=1), parameters=parameters, enable_empty_final_response=True
        )
        while True:
            try:
                result, error = answers.get(timeout=ANSWER_LIMIT_S)
            except queue.Empty:
                raise TimeoutError(f"no answer for {ANSWER_LIMIT_S} s after {len(pieces)} pieces") from None
            if error is not None:
                raise error
            response = result.get_response()  # type: ignore[attr-defined]
            if response.parameters["triton_final_response"].bool_param:
                return np.concatenate(pieces)
            _note(response, facts)
            pieces.append(result.as_numpy("audio")[0])  # type: ignore[attr-defined]
