"""Edge processes without an engine: their start, deaths, and end."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.supervisor.conftest import wait_until
from voxrepo.edge.listening import CannotListen
from voxrepo.edge.options import EdgeOptions
from voxrepo.edge.table import EdgeTable, write_table
from voxrepo.supervisor.edges import MOST_WORKERS_BY_DEFAULT, Edges, Worker, default_workers
from voxrepo_contract.errors import ConfigError


class Scene:
    """Two workers that serve an empty table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "table.json"
        write_table(self.table, EdgeTable(generation=1))
        self.edges = self.new()

    def options(self) -> EdgeOptions:
        return EdgeOptions(
            engine=f"unix:{self.folder}/absent.sock", table=self.table, http_port=0, grpc_port=0, metrics_port=0
        )

    def new(self) -> Edges:
        return Edges(self.options(), 2, self.folder / "edge", self.folder / "logs")

    def step_until_all_serve(self) -> None:
        def all_serve() -> bool:
            self.edges.step(time.monotonic())
            return self.edges.all_serve

        wait_until(all_serve, 30)

    def pids(self) -> list[int | None]:
        return [status.pid for status in self.edges.statuses]

    def kill(self, number: int) -> None:
        """Kill -9, and wait until it is dead: until then the kernel may still give it connections."""
        pid = self.pids()[number]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.pids()[number] is None)

    def is_live(self) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.edges.ports[0]}/v2/health/live", timeout=5) as answer:
            return bool(answer.status == 200)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.edges.start()
    yield scene
    scene.edges.stop(10)


def test_one_that_is_killed_is_replaced_on_the_same_ports_while_the_other_serves(scene: Scene) -> None:
    first, second = scene.pids()
    scene.kill(1)
    scene.edges.step(time.monotonic())
    assert not scene.edges.all_serve
    assert [status.serves for status in scene.edges.statuses] == [True, False]
    for _ in range(20):
        assert scene.is_live()
    scene.step_until_all_serve()
    assert scene.pids()[0] == first
    assert scene.pids()[1] not in {None, second}
    assert [status.restarts for status in scene.edges.statuses] == [0, 1]


def test_a_table_is_taken_once_every_process_that_runs_goes_by_it(scene: Scene) -> None:
    assert scene.edges.wait_for(1)
    _, second = scene.pids()
    assert second is not None
    os.kill(second, signal.SIGSTOP)
    try:
        write_table(scene.table, EdgeTable(generation=2))
        give_up_s = time.monotonic() + 1
        assert not scene.edges.wait_for(2, lambda: time.monotonic() > give_up_s)
    finally:
        os.kill(second, signal.SIGCONT)
    assert scene.edges.wait_for(2)
    scene.kill(1)
    write_table(scene.table, EdgeTable(generation=3))
    assert scene.edges.wait_for(3)
    scene.step_until_all_serve()
    assert scene.edges.wait_for(3)


def test_something_is_free_once_every_process_goes_by_the_table_and_counts_no_request_of_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, object]] = [{"generation": 4, "in_use": {"one|a=1": 2}}, {"generation": 3, "in_use": {}}]
    monkeypatch.setattr(Worker, "facts", property(lambda worker: said[worker.options.worker]))
    assert not scene.edges.are_free_of(4, "one|a=2"), "the second may begin another with what it goes by"
    said[1]["generation"] = 4
    assert scene.edges.are_free_of(4, "one|a=2")
    assert not scene.edges.are_free_of(4, "one|a=1")
    said[1] = {}  # it has just started and does not listen yet
    assert not scene.edges.are_free_of(4, "one|a=2")


def test_they_stop_side_by_side_and_give_up_the_ports(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.edges.start()
    pids = scene.pids()
    started_s = time.monotonic()
    assert scene.edges.stop(10)
    assert time.monotonic() - started_s < 8
    assert not [pid for pid in pids if pid is not None and psutil.pid_exists(pid)]
    assert not list((tmp_path / "edge").glob("*.json"))
    for port in scene.edges.ports:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
            free.listen()


def test_what_a_killed_one_counted_stays_on_the_page(scene: Scene) -> None:
    """Each refusal is counted; both workers are asked until each has refused some."""

    def refusals() -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{scene.edges.ports[2]}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("voxrepo_requests_total{"))

    def ask() -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{scene.edges.ports[0]}/v2/models/none/infer", data=json.dumps({"inputs": []}).encode()
        )
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=5)

    for _ in range(50):
        ask()
    assert refusals() == 50
    logs = [(scene.folder / "logs" / name).read_text() for name in ("edge.log", "edge-2.log")]
    assert all('"outcome"' in log for log in logs), "all connections went to one worker: the test shows nothing"
    for number in range(2):
        scene.kill(number)
        scene.step_until_all_serve()
        assert refusals() == 50


def test_a_taken_port_is_said_before_anything_starts(scene: Scene) -> None:
    with pytest.raises(CannotListen, match=f"{scene.edges.ports[1]}.*--grpc-port"):
        Edges(
            EdgeOptions(
                engine="unix:absent",
                table=scene.table,
                http_port=0,
                grpc_port=scene.edges.ports[1],
                metrics_port=0,
            ),
            1,
            scene.folder / "other",
            scene.folder / "logs",
        )


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.table.write_text("{")
    with pytest.raises(ConfigError, match=r"table\.json"):
        scene.edges.start()
    scene.edges.stop(5)


def test_small_machines_get_one_and_large_ones_a_few() -> None:
    assert [default_workers(cores) for cores in (1, 2, 16, 31)] == [1, 1, 1, 1]
    assert default_workers(32) == 2
    assert default_workers(192) == MOST_WORKERS_BY_DEFAULT
