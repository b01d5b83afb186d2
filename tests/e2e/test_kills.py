"""kill -9 of every part of a server under 8 streams and 8 unary clients: what fails is bounded, and it comes back.

Run with ``-s`` to see what failed and how long it took.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc

from tests.e2e.calls import SENTENCES, Audio
from tests.e2e.streams import OWN_CONNECTION, STREAM, request_for, samples_of, wait_for_quiet
from tests.harness import VOICE, RunningServer, clone_root, running_server
from voxrepo.supervisor.stub_watch import model_of

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

STREAMS, UNARY = 8, 8
ANSWER_TIMEOUT_S = 120.0
BACK_S = 60.0
"""Generous: the machine that runs the tests may be busy. What it took is printed."""
OPTIONS = ("--max-queue", "0", "--max-utilisation", "0")
"""A slow machine would refuse some of the clients, which is another matter."""
SPOKEN_BY_STREAMS = SENTENCES[UNARY : UNARY + STREAMS]
"""A few pieces each."""


@dataclass
class Asked:
    """One request and what became of it.

    Attributes:
        began_s: on the clock of ``time.monotonic``; likewise ``ended_s``.
        outcome: ``right``, ``wrong``, or the name of a status.
        pieces: received; 0 for unary requests.
        gap_s: longest time from one piece to the next.
    """

    began_s: float
    is_stream: bool
    outcome: str = "right"
    text: str = ""
    ended_s: float = 0.0
    pieces: int = 0
    gap_s: float = 0.0


def ask(server: RunningServer, text: str, model: str) -> Audio:
    """All audio of an answer, over a connection of its own."""
    return hear(server, text, model, Asked(0.0, is_stream=False))


def hear(server: RunningServer, text: str, model: str, asked: Asked) -> Audio:
    """Likewise; ``asked`` learns of the pieces as they come.

    Raises:
        grpc.RpcError: it failed.
        StreamFailed: likewise, by a message on the stream.
    """
    with grpc.insecure_channel(server.grpc_url, options=OWN_CONNECTION) as channel:
        stub = rpc.GRPCInferenceServiceStub(channel)
        request = request_for(text, seed=1, model=model)
        if model == VOICE:
            return samples_of(stub.ModelInfer(request, timeout=ANSWER_TIMEOUT_S))
        parts, last_s = [], 0.0
        for answer in stub.ModelStreamInfer(iter([request]), timeout=ANSWER_TIMEOUT_S):
            if answer.error_message:
                raise StreamFailed(answer)
            now_s = time.monotonic()
            parts.append(samples_of(answer.infer_response))
            asked.pieces += 1
            asked.gap_s = max(asked.gap_s, now_s - last_s) if last_s else 0.0
            last_s = now_s
        return np.concatenate(parts)


class StreamFailed(Exception):
    """An error came as a message on the stream."""

    def __init__(self, answer: pb.ModelStreamInferResponse) -> None:
        super().__init__(answer.error_message)


@dataclass
class Clients:
    """What clients that never stop asking have got."""

    server: RunningServer
    expected: dict[tuple[str, str], Audio]
    done: list[Asked] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, text: str, model: str) -> None:
        while not self.stopped.is_set():
            asked = Asked(time.monotonic(), model == STREAM)
            try:
                audio = hear(self.server, text, model, asked)
                asked.outcome = "right" if np.array_equal(audio, self.expected[text, model]) else "wrong"
            except grpc.RpcError as error:
                asked.outcome, asked.text = error.code().name, str(error.details())
            except StreamFailed as error:
                asked.outcome, asked.text = "message", str(error)
            asked.ended_s = time.monotonic()
            self.done.append(asked)
            if asked.outcome != "right":
                time.sleep(0.1)

    def failed(self, since_s: float) -> list[Asked]:
        return [asked for asked in list(self.done) if asked.outcome != "right" and asked.ended_s >= since_s]

    def right_since(self, since_s: float, *, is_stream: bool) -> list[Asked]:
        """Those that began since then and were served."""
        return [
            asked
            for asked in list(self.done)
            if asked.outcome == "right" and asked.began_s >= since_s and asked.is_stream == is_stream
        ]

    def wait_until_served(self, since_s: float) -> float:
        """Wait until both kinds of client have been served anew; seconds from then to the first answer of each."""
        firsts = []
        for is_stream in (False, True):
            served = partial(self.right_since, since_s, is_stream=is_stream)
            wait_until(served, BACK_S, "requests are answered")
            firsts.append(min(asked.ended_s for asked in served()))
        return max(firsts) - since_s

    def report(self, what: str, killed_s: float, back_s: float) -> None:
        failed = self.failed(killed_s)
        reasons = Counter((asked.is_stream, asked.outcome, asked.text[:100]) for asked in failed)
        gap_s = max((asked.gap_s for asked in self.done if asked.ended_s >= killed_s), default=0.0)
        print(
            f"{what}: back after {back_s:.1f} s, {len(failed)} failed, longest gap in a stream {gap_s:.1f} s", reasons
        )


@contextmanager
def clients(server: RunningServer) -> Iterator[Clients]:
    """8 streams and 8 unary clients, each asking one thing after the other."""
    work = [(text, STREAM) for text in SPOKEN_BY_STREAMS] + [(text, VOICE) for text in SENTENCES[:UNARY]]
    crowd = Clients(server, {(text, model): ask(server, text, VOICE) for text, model in work})
    threads = [threading.Thread(target=crowd.run, args=job) for job in work]
    started_s = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        crowd.wait_until_served(started_s)
        yield crowd
    finally:
        crowd.stopped.set()
        for thread in threads:
            thread.join(ANSWER_TIMEOUT_S)
    assert not [asked for asked in crowd.done if asked.outcome == "wrong"]


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> float:
    """Wait; seconds that it took."""
    started_s = time.monotonic()
    while not condition():
        assert time.monotonic() - started_s < timeout_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - started_s


def is_well(server: RunningServer) -> bool:
    state = server.read_state()
    return state.get("phase") == "ready" and not state["held"]


def stub_of(server: RunningServer, model: str) -> int:
    for child in psutil.Process(server.read_state()["engine_pid"]).children():
        with suppress(psutil.Error):
            if model_of(child.cmdline()) == model:
                return int(child.pid)
    raise AssertionError(f"{model} has no stub")


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    return clone_root(voice_root, tmp_path / "root")


def test_a_killed_stub_costs_no_request_and_streams_have_a_gap(root: Path) -> None:
    with running_server(root, *OPTIONS) as server:
        engine_pid = server.read_state()["engine_pid"]
        with clients(server) as crowd:
            for stage in ("text_frontend", "acoustic", "vocoder"):
                restarts = server.read_state()["stub_restarts"]
                os.kill(stub_of(server, f"{VOICE}.{stage}"), signal.SIGKILL)
                killed_s = time.monotonic()
                wait_until(lambda: server.read_state()["stub_restarts"] > restarts, 5, "the dead stub is found")  # noqa: B023
                back_s = wait_until(lambda: is_well(server), BACK_S, "the voice is cured")
                crowd.wait_until_served(time.monotonic())
                crowd.report(stage, killed_s, back_s)
                failed = crowd.failed(killed_s)
                assert len(failed) <= STREAMS + UNARY
                assert {asked.outcome for asked in failed} <= {"UNAVAILABLE", "message"}
        assert server.read_state()["engine_pid"] == engine_pid
        wait_for_quiet(server)


def test_a_killed_engine_costs_at_most_what_was_in_flight(root: Path) -> None:
    with running_server(root, *OPTIONS) as server:
        before = server.read_state()
        with clients(server) as crowd:
            os.kill(before["engine_pid"], signal.SIGKILL)
            killed_s = time.monotonic()
            wait_until(lambda: server.read_state()["engine_restarts"] == 1, BACK_S, "the engine is restarted")
            wait_until(lambda: is_well(server), BACK_S, "the voice is back")
            back_s = time.monotonic() - killed_s
            crowd.wait_until_served(time.monotonic())
            crowd.report("engine", killed_s, back_s)
            failed = crowd.failed(killed_s)
        assert len(failed) <= STREAMS + UNARY
        assert {asked.outcome for asked in failed} <= {"UNAVAILABLE", "message"}
        wait_for_quiet(server)


def test_a_killed_edge_worker_costs_what_it_had_and_the_other_takes_over_its_places(root: Path) -> None:
    with running_server(root, *OPTIONS, "--edge-workers", "2") as server:
        with clients(server) as crowd:
            for number in (0, 1):
                victim = server.read_state()["edge_workers"][number]["pid"]
                os.kill(victim, signal.SIGKILL)
                killed_s = time.monotonic()

                def serve_all(victim: int = victim, number: int = number) -> bool:
                    workers = server.read_state()["edge_workers"]
                    return all(worker["serves"] for worker in workers) and workers[number]["pid"] != victim

                back_s = wait_until(serve_all, BACK_S, "the worker is back")
                crowd.wait_until_served(time.monotonic())
                crowd.report(f"edge worker {number + 1}", killed_s, back_s)
                failed = crowd.failed(killed_s)
                assert len(failed) <= STREAMS + UNARY
                # who came later found the other one
                assert not [asked for asked in failed if asked.began_s > killed_s + 0.5]
        wait_for_quiet(server)


def test_after_the_death_of_the_supervisor_a_new_server_starts_clean(root: Path) -> None:
    with running_server(root, *OPTIONS) as server:
        old = server.tree()[1:]
        with clients(server) as crowd:
            os.kill(server.process.pid, signal.SIGKILL)
            killed_s = time.monotonic()
            server.process.wait(10)
            psutil.wait_procs(old, timeout=10)
            assert not [process for process in old if process.is_running()]
            crowd.stopped.set()
        assert len(crowd.failed(killed_s)) >= STREAMS + UNARY
    with running_server(root, *OPTIONS) as server:
        regions = {region.name for region in Path("/dev/shm").glob(f"{server.workspace.shm_prefix}*")}
        assert regions == set(regions_of(server))
        started_s = time.monotonic()
        with clients(server) as crowd:
            crowd.report("supervisor", started_s, crowd.wait_until_served(started_s))
        assert not crowd.failed(started_s)
        wait_for_quiet(server)


def regions_of(server: RunningServer) -> Iterator[str]:
    """Shared memory regions that living stubs name on their command lines."""
    for child in psutil.Process(server.read_state()["engine_pid"]).children():
        with suppress(psutil.Error):
            words = child.cmdline()
            if model_of(words) is not None:
                yield words[2]
