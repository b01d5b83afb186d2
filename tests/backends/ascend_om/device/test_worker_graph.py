from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.device.client import DeviceWorker
from om_backend.device.worker_graph import WorkerGraph

from voxrepo_contract.errors import ConfigError, Internal
from voxrepo_contract.stage import GraphSpec, GraphTensor


def spec(x: str = "FP32", **changes: Any) -> GraphSpec:
    tensors: dict[str, Any] = {
        "inputs": [
            GraphTensor(name="command", dtype="INT64", dims=[1]),
            GraphTensor(name="x", dtype=x, dims=["rows", "columns"]),  # type: ignore[arg-type]
        ],
        "outputs": [GraphTensor(name="y", dtype="FP32", dims=["rows", "columns"])],
        **changes,
    }
    return GraphSpec(file="graph.json", sha256="0" * 64, device="npu", **tensors)


def test_feeds_and_results_go_by_the_names_of_the_stage(
    make_worker: Callable[..., DeviceWorker], graph_file: Callable[..., Path]
):
    graph = WorkerGraph(make_worker(), graph_file(outputs=["Mul_0:0:y"]), spec())
    x = np.ones((2, 3), np.float32)
    outputs = graph.run({"command": np.zeros(1, np.int64), "x": x})
    assert list(outputs) == ["y"]
    assert (outputs["y"] == 2).all()
    assert graph.description is not None
    assert graph.description.memory.total_bytes == 1230


@pytest.mark.parametrize(
    ("feeds", "says"),
    [
        ({"x": np.ones((1, 1), np.float32)}, r"takes \['x', 'command'\], was fed \['x'\]"),
        ({"x": np.ones((1, 1), np.float64), "command": np.zeros(1, np.int64)}, "'x' must be float32, was fed float64"),
        (
            {"x": np.ones((1, 1), np.float32), "other": np.zeros(1, np.int64)},
            "'command' must be int64, was fed nothing",
        ),
    ],
)
def test_feeds_that_do_not_fit_are_a_fault_of_the_program(
    make_worker: Callable[..., DeviceWorker], graph_file: Callable[..., Path], feeds: Any, says: str
):
    graph = WorkerGraph(make_worker(), graph_file(), spec())
    with pytest.raises(Internal, match=says):
        graph.run(feeds)


def test_a_graph_that_is_not_the_one_described_is_unloaded_again(
    make_worker: Callable[..., DeviceWorker], graph_file: Callable[..., Path]
):
    worker = make_worker()
    with pytest.raises(ConfigError, match=r"input 'x' is FP16 in stage\.yaml and FP32 in the graph"):
        WorkerGraph(worker, graph_file(), spec(x="FP16"))
    assert worker._graphs == {}


def test_closing_unloads_once(make_worker: Callable[..., DeviceWorker], graph_file: Callable[..., Path]):
    worker = make_worker()
    graph = WorkerGraph(worker, graph_file(), spec())
    graph.close()
    graph.close()
    assert worker._graphs == {}
    graph.release_work_memory()
