"""The whole way from a stage's graph to AscendCL: worker process, runtime ``acl``, the emulator."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.device.client import DeviceWorker
from om_backend.device.observer import State
from om_backend.device.worker_graph import WorkerGraph
from om_backend.workers import Workers

from tests.emulator import makers
from voxrepo_contract.errors import ConfigError, InvalidArgument, Unavailable
from voxrepo_contract.stage import GraphSpec, GraphTensor

from .conftest import Lines

pytest.importorskip("onnxruntime")

GEARS = [{"batch": 1, "length": 8}, {"batch": 1, "length": 16}, {"batch": 2, "length": 16}]


def spec(file: Path, gears: list[dict[str, int]]) -> GraphSpec:
    return GraphSpec(
        file=file.name,
        sha256="0" * 64,
        device="npu",
        inputs=[
            GraphTensor(name="x", dtype="FP32", dims=["batch", "length"]),
            GraphTensor(name="scale", dtype="FP32", dims=["batch", 1]),
        ],
        outputs=[GraphTensor(name="y", dtype="FP32", dims=["batch", "length"])],
        gears=gears,
    )


class Emulated:
    def __init__(self, folder: Path) -> None:
        self.reports = folder / "reports"
        self.faults = folder / "faults"
        self.log = Lines()
        self.settings: dict[str, Any] = {
            "soc": makers.SOC,
            "device_count": 2,
            "device_memory_bytes": 64 << 20,
            "strict": True,
            "report_dir": str(self.reports),
            "fault_dir": str(self.faults),
            "memory_file": str(folder / "memory.json"),
        }
        for place in (self.reports, self.faults):
            place.mkdir()
        self._file = folder / "settings.json"
        self._workers: list[Workers] = []

    def worker(self, device_id: int = 0, **environment: str) -> DeviceWorker:
        self._file.write_text(json.dumps(self.settings), "utf-8")
        base = {
            **os.environ,
            "VOXREPO_EMULATOR_DIR": str(makers.EMULATOR_DIR),
            "VOXREPO_EMULATOR_SETTINGS": str(self._file),
            "VOXREPO_WORKER_PYTHON": sys.executable,
            "VOXREPO_LOCKS_DIR": str(self._file.parent / "locks"),
            **environment,
        }
        self._workers.append(Workers("emulator", device_id, 2000, self.log, environment=base))
        return self._workers[-1].get("acl", "npu")

    def inject(self, **fault: Any) -> None:
        name = f"{time.monotonic_ns()}.json"
        (self.faults / f".{name}").write_text(json.dumps({"count": 1, "skip": 0, "text": "injected", **fault}))
        (self.faults / f".{name}").rename(self.faults / name)

    def close(self) -> None:
        for workers in self._workers:
            workers.close()

    def report(self) -> list[dict[str, Any]]:
        self.close()
        lines = [line for file in self.reports.iterdir() for line in file.read_text("utf-8").splitlines()]
        return [json.loads(line) for line in lines]


@pytest.fixture
def emulated(tmp_path: Path) -> Iterator[Emulated]:
    emulated = Emulated(tmp_path)
    yield emulated
    emulated.close()


def call(graph: WorkerGraph, batch: int, length: int, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    x, scale = random.random((batch, length), np.float32), random.random((batch, 1), np.float32)
    assert np.array_equal(graph.run({"x": x, "scale": scale})["y"], x * scale)


def assert_clean(report: list[dict[str, Any]], processes: int) -> None:
    assert [line for line in report if line.get("kind") in {"violation", "leak"}] == []
    ends = [line for line in report if line.get("kind") == "end"]
    assert len(ends) == processes
    assert all(end["violations"] == 0 and end["leaks"] == 0 for end in ends)


def test_graphs_of_every_kind_run_side_by_side_without_a_trace(emulated: Emulated, tmp_path: Path):
    worker = emulated.worker()
    made: dict[str, Any] = {
        "static.om": (makers.write_static, [{"batch": 2, "length": 8}]),
        "batch.om": (makers.write_batch_gears, [{"batch": b, "length": 8} for b in (1, 2, 4)]),
        "dims.om": (makers.write_dims_gears, GEARS),
    }
    graphs: list[tuple[WorkerGraph, list[dict[str, int]]]] = []
    for name, (write, gears) in made.items():
        file = write(tmp_path / name)
        graphs.append((WorkerGraph(worker, file, spec(file, gears)), gears))
    ranged = makers.write_range(tmp_path / "range.om")
    graphs.append((WorkerGraph(worker, ranged, spec(ranged, [])), [{"batch": 3, "length": n} for n in (1, 64, 7)]))
    for round_ in range(5):
        for graph, gears in graphs:
            for gear in gears:
                call(graph, gear["batch"], gear["length"], round_)
    for graph, _ in graphs:
        assert graph.description is not None
        assert graph.description.memory.buffers_bytes > 0
    assert_clean(emulated.report(), processes=1)


def test_a_shape_without_a_gear_names_the_gears(emulated: Emulated, tmp_path: Path):
    file = makers.write_dims_gears(tmp_path / "dims.om")
    graph = WorkerGraph(emulated.worker(), file, spec(file, GEARS))
    with pytest.raises(InvalidArgument, match=r"no gear for .*\[1, 9\].*\[1, 8\].*\[2, 16\]"):
        call(graph, 1, 9)
    call(graph, 1, 8)
    assert_clean(emulated.report(), processes=1)


SYNCHRONISE = "rt.synchronize_stream_with_timeout"


@pytest.mark.parametrize(
    ("code", "processes"),
    [(507015, 2), (507011, 2), (507017, 2), (500002, None), (507013, 2), (107002, 1)],
)
def test_a_fault_on_the_device_costs_no_request(emulated: Emulated, tmp_path: Path, code: int, processes: int | None):
    file = makers.write_dims_gears(tmp_path / "dims.om")
    worker = emulated.worker()
    graph = WorkerGraph(worker, file, spec(file, GEARS))
    call(graph, 1, 8)
    emulated.inject(function=SYNCHRONISE, code=code)
    call(graph, 2, 16)
    call(graph, 1, 16)
    assert str(code) in emulated.log.text
    report = emulated.report()
    assert [line for line in report if line.get("kind") == "violation"] == []
    if processes is not None:
        assert len([line for line in report if line.get("kind") == "end"]) == processes


def test_a_request_that_always_faults_fails_alone_and_the_next_is_served(emulated: Emulated, tmp_path: Path):
    file = makers.write_gather(tmp_path / "gather.om")
    worker = emulated.worker()
    listed = GraphSpec(
        file=file.name,
        sha256="0" * 64,
        device="npu",
        inputs=[GraphTensor(name="ids", dtype="INT64", dims=[4])],
        outputs=[GraphTensor(name="rows", dtype="FP32", dims=[4, 2])],
    )
    graph = WorkerGraph(worker, file, listed)
    pid = worker.pid
    with pytest.raises(Unavailable, match=r"the device worker restarts: .* \(acl\.rt\.synchronize\w*: 507\d{3} "):
        graph.run({"ids": np.array([0, 1, 2, 99])})
    start = time.monotonic()
    while worker.state is not State.READY and time.monotonic() - start < 10:
        time.sleep(0.02)
    assert graph.run({"ids": np.array([0, 9, 5, 1])})["rows"][1].tolist() == [18, 19]
    assert time.monotonic() - start < 10
    assert worker.pid != pid


def test_a_lost_device_is_out_of_service(emulated: Emulated, tmp_path: Path):
    file = makers.write_static(tmp_path / "static.om")
    worker = emulated.worker()
    graph = WorkerGraph(worker, file, spec(file, [{"batch": 2, "length": 8}]))
    emulated.inject(function=SYNCHRONISE, code=507010)
    with pytest.raises(Unavailable, match="out of service"):
        call(graph, 2, 8)
    assert worker.state is State.OUT_OF_SERVICE
    assert "ALARM" in emulated.log.text


def test_a_model_too_large_for_the_device_is_refused_and_the_others_go_on(emulated: Emulated, tmp_path: Path):
    file = makers.write_static(tmp_path / "static.om")
    worker = emulated.worker()
    graph = WorkerGraph(worker, file, spec(file, [{"batch": 2, "length": 8}]))
    large = makers.write_static(tmp_path / "large.om", weights_bytes=60 << 20, work_bytes=10 << 20)
    with pytest.raises(ConfigError, match=r"needs 70\..* MiB on the device .* are free"):
        WorkerGraph(worker, large, spec(large, [{"batch": 2, "length": 8}]))
    call(graph, 2, 8)
    assert_clean(emulated.report(), processes=1)


FITS_ALONE = r"\Alarge\.om needs 40\.\d MiB on the device \(35\.0 MiB weights, 5\.0 MiB work .* of 64\.0 MiB are free"


def make_large(tmp_path: Path) -> tuple[Path, GraphSpec]:
    file = makers.write_static(tmp_path / "large.om", weights_bytes=35 << 20, work_bytes=5 << 20)
    return file, spec(file, [{"batch": 2, "length": 8}])


def test_of_two_workers_whose_graphs_fit_alone_the_second_is_refused_with_numbers(emulated: Emulated, tmp_path: Path):
    file, listed = make_large(tmp_path)
    first = WorkerGraph(emulated.worker(), file, listed)
    call(first, 2, 8)
    with pytest.raises(ConfigError) as refused:
        WorkerGraph(emulated.worker(), file, listed)
    assert re.search(FITS_ALONE, refused.value.message.removeprefix(f"{file}: "))
    call(first, 2, 8)
    call(WorkerGraph(emulated.worker(1), file, listed), 2, 8)
    first.close()
    call(WorkerGraph(emulated.worker(), file, listed), 2, 8)
    assert_clean(emulated.report(), processes=4)


def test_of_workers_that_load_at_once_one_gets_the_memory_and_the_others_a_refusal(emulated: Emulated, tmp_path: Path):
    small = makers.write_static(tmp_path / "static.om")
    # nearly all of it buffers, which are made last: who looked at the free memory first would find it taken
    gear = {"batch": 2, "length": 2_500_000}
    file = makers.write_static(tmp_path / "large.om", batch=gear["batch"], length=gear["length"])
    workers = [emulated.worker() for _ in range(3)]
    for worker in workers:
        WorkerGraph(worker, small, spec(small, [{"batch": 2, "length": 8}]))
    answers: list[WorkerGraph | Exception] = []

    def load(worker: DeviceWorker) -> None:
        try:
            answers.append(WorkerGraph(worker, file, spec(file, [gear])))
        except (ConfigError, Unavailable) as error:
            answers.append(error)

    threads = [threading.Thread(target=load, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (graph,) = [answer for answer in answers if isinstance(answer, WorkerGraph)]
    for answer in answers:
        if answer is not graph:
            # by the budget, not by an allocation that failed half-way
            assert isinstance(answer, ConfigError)
            assert re.search(r"needs 40\.0 MiB on the device .* buffers\) and 25\.\d MiB of 64", answer.message)
    call(graph, 2, 2_500_000)
    assert_clean(emulated.report(), processes=3)


def test_a_killed_worker_gets_its_memory_again(emulated: Emulated, tmp_path: Path):
    file, listed = make_large(tmp_path)
    worker = emulated.worker()
    graph = WorkerGraph(worker, file, listed)
    pid = worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 20
    while worker.pid in (pid, None) and time.monotonic() < end:
        time.sleep(0.01)
    call(graph, 2, 8)


def test_each_worker_has_its_own_device(emulated: Emulated, tmp_path: Path):
    file = makers.write_static(tmp_path / "static.om")
    graphs = [WorkerGraph(emulated.worker(device), file, spec(file, [{"batch": 2, "length": 8}])) for device in (0, 1)]
    for graph in graphs:
        call(graph, 2, 8)
    with pytest.raises((ConfigError, Unavailable), match="there is no device 2: 2 are visible"):
        WorkerGraph(emulated.worker(2), file, spec(file, [{"batch": 2, "length": 8}]))


def test_a_folder_without_the_emulator_is_refused(emulated: Emulated, tmp_path: Path):
    with pytest.raises(ConfigError, match="VOXREPO_EMULATOR_DIR is '/nowhere'"):
        emulated.worker(VOXREPO_EMULATOR_DIR="/nowhere")


def test_memory_is_told(emulated: Emulated, tmp_path: Path):
    worker = emulated.worker()
    assert worker.memory() is None
    file = makers.write_static(tmp_path / "static.om")
    WorkerGraph(worker, file, spec(file, [{"batch": 2, "length": 8}]))
    memory = worker.memory()
    assert memory is not None
    assert memory.total_bytes == 64 << 20
    assert memory.free_bytes < memory.total_bytes
