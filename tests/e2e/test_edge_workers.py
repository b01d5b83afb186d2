"""Two edge processes on shared ports, in front of a real engine."""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import SENTENCES, generate, speak
from tests.e2e.streams import OWN_CONNECTION, metric
from tests.harness import START_TIMEOUT_S, VOICE, RunningServer, clone_root, running_server, voxrepo

pytestmark = pytest.mark.e2e

WORKERS = 2
SHORT = "Yes."


@pytest.fixture(scope="module")
def root(voice_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clone_root(voice_root, tmp_path_factory.mktemp("workers") / "root")


@pytest.fixture
def server(root: Path) -> Iterator[RunningServer]:
    # on a slow machine the predicted wait of so many clients may be refused, which is another matter
    options = ("--edge-workers", str(WORKERS), "--drain-timeout", "120", "--max-queue", "0")
    with running_server(root, *options) as running:
        for log in logs(running):
            os.truncate(log, 0)
        yield running


def logs(server: RunningServer) -> list[Path]:
    folder = server.root / ".voxrepo" / "logs"
    return [folder / "edge.log", folder / "edge-2.log"]


def requests_in(log: Path) -> list[dict[str, Any]]:
    """What a worker logged of its requests."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return [json.loads(line[line.index("{") :]) for line in lines if '"outcome"' in line]


def served(server: RunningServer) -> float:
    return metric(server, "voxrepo_requests_total", model=VOICE, outcome="ok")


def wait_until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.05)


def over_http(server: RunningServer, text: str) -> None:
    """One request over a connection of its own."""
    status, answer = generate(server, {"text": text, "seed": 7})
    assert status == 200, answer


def over_grpc(server: RunningServer, text: str) -> None:
    """Likewise."""
    with grpc_client.InferenceServerClient(server.grpc_url, channel_args=list(OWN_CONNECTION)) as client:
        speak(client, text)


def test_200_fresh_connections_reach_both_and_are_counted_exactly(server: RunningServer) -> None:
    calls = [over_http] * 150 + [over_grpc] * 50
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda call: call(server, SHORT), calls))
    seen = [requests_in(log) for log in logs(server)]
    assert sum(map(len, seen)) == len(calls)
    for requests in seen:
        assert {request["protocol"] for request in requests} == {"generate", "grpc"}
        assert len(requests) > 50
    for _ in range(8):  # whichever worker answers
        assert served(server) == len(calls)
        assert metric(server, "voxrepo_request_duration_seconds_count", model=VOICE) == len(calls)
        assert metric(server, "voxrepo_edge_workers") == WORKERS
        assert metric(server, "voxrepo_engine_metrics_up") == 1
        assert metric(server, "nv_inference_request_success", model=VOICE) >= len(calls)
    wait_until(lambda: metric(server, "voxrepo_in_flight") == metric(server, "voxrepo_engine_calls") == 0, 3)


@pytest.mark.soak
def test_the_status_shows_the_workers(server: RunningServer) -> None:
    pids = [worker["pid"] for worker in server.read_state()["edge_workers"]]
    assert len(set(pids)) == WORKERS
    assert all(psutil.pid_exists(pid) for pid in pids)
    assert "edge workers 2 of 2 (restarts 0)" in voxrepo("status", "--root", str(server.root)).stderr


class Load:
    """Clients that ask one thing after the other, each time over a new connection.

    Attributes:
        failures: begin of each request that failed, on the clock of ``time.monotonic``, and why.
        answers: how many did not.
    """

    def __init__(self, server: RunningServer, clients: int) -> None:
        self._server = server
        self._stopped = threading.Event()
        self._numbers = itertools.count()
        self.failures: list[tuple[float, str]] = []
        self.answers = 0
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            began_s = time.monotonic()
            try:
                over_http(self._server, SENTENCES[next(self._numbers) % len(SENTENCES)])
            except (OSError, HTTPException, AssertionError) as error:
                self.failures.append((began_s, repr(error)))
            else:
                with self._lock:
                    self.answers += 1

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


def test_a_killed_worker_takes_only_its_own_requests_with_it_and_no_count(server: RunningServer) -> None:
    clients = 8
    load = Load(server, clients)
    counts = [served(server)]
    try:
        wait_until(lambda: load.answers >= 2 * clients, 60)
        counts.append(served(server))
        victim = server.read_state()["edge_workers"][1]["pid"]
        os.kill(victim, signal.SIGKILL)
        killed_s = time.monotonic()

        def is_whole() -> bool:
            try:
                counts.append(served(server))
            except (OSError, HTTPException):  # a scrape that met the victim
                assert time.monotonic() < killed_s + 1
            workers = server.read_state()["edge_workers"]
            return all(worker["serves"] for worker in workers) and workers[1]["pid"] != victim

        wait_until(is_whole, 30)
        back_s = time.monotonic() - killed_s
        assert metric(server, "voxrepo_edge_workers") == WORKERS
        more = load.answers + 4 * clients
        wait_until(lambda: load.answers >= more, 60)
    finally:
        load.stop()
    reasons = Counter(reason[:120] for _, reason in load.failures)
    print(reasons)
    print(f"back after {back_s:.1f} s; {len(load.failures)} of {load.answers + len(load.failures)} requests failed")
    assert back_s < 10
    # each client has one request at a time, and those that began later found the other worker
    assert len(load.failures) <= clients
    assert not [failure for failure in load.failures if failure[0] > killed_s + 0.2], load.failures
    counts.append(served(server))
    assert counts == sorted(counts), "a count went down"
    assert load.answers <= counts[-1] <= load.answers + len(load.failures)
    assert {request["outcome"] for request in requests_in(logs(server)[1])} == {"ok"}
    state = server.read_state()
    assert (state["phase"], state["edge_restarts"]) == ("ready", 1)
    assert [worker["restarts"] for worker in state["edge_workers"]] == [0, 1]


@pytest.mark.soak
def test_a_stop_lets_both_finish_what_they_do(server: RunningServer) -> None:
    clients = 12
    text = " ".join(SENTENCES[:3])
    with ThreadPoolExecutor(clients) as pool:
        answers = [pool.submit(over_http, server, text) for _ in range(clients)]
        wait_until(lambda: metric(server, "voxrepo_in_flight") >= clients - 2 or any(a.done() for a in answers))
        assert not all(answer.done() for answer in answers)
        server.process.send_signal(signal.SIGTERM)
        for answer in answers:
            answer.result(120)
    assert server.process.wait(60) == 0
    finished = [[r for r in requests_in(log) if r.get("chars") == len(text)] for log in logs(server)]
    assert sum(map(len, finished)) == clients
    assert all(finished), "all connections went to one worker: the test shows nothing"


@pytest.mark.soak
def test_a_killed_worker_is_replaced_within_the_time_that_the_engine_needs_for_one(root: Path) -> None:
    """With one worker nobody serves meanwhile; the counts stay all the same."""
    with running_server(root, "--edge-workers", "1") as server:
        over_http(server, SHORT)
        before = served(server)
        pid = server.read_state()["edge_workers"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: server.read_state()["edge_workers"][0]["pid"] not in {None, pid}, START_TIMEOUT_S)
        wait_until(lambda: server.read_state()["phase"] == "ready", START_TIMEOUT_S)
        over_http(server, SHORT)
        assert served(server) == before + 1 == 2
