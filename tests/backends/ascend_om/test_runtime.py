"""Which runtime a graph is loaded into, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.runtime import Graph, RuntimeSettings, load_graph
from om_backend.workers import Workers
from onnx import helper

from voxrepo_contract.errors import ConfigError, Internal, Unavailable
from voxrepo_contract.stage import GraphSpec

from .graphs import Tensors, place

INPUTS: Tensors = [("x", "FP32", ["batch", 2])]
OUTPUTS: Tensors = [("y", "FP32", ["batch", 2])]


def graph(folder: Path, **changes: Any) -> GraphSpec:
    spec = place(folder, "model", [helper.make_node("Neg", ["x"], ["y"])], INPUTS, OUTPUTS)
    return spec.model_copy(update=changes)


def test_a_cpu_graph_runs_in_this_process_and_has_no_description(tmp_path: Path):
    loaded: list[tuple[str, str, Graph]] = []
    settings = RuntimeSettings(threads=2, loaded=lambda file, where, graph: loaded.append((file.name, where, graph)))
    model = load_graph(tmp_path, graph(tmp_path), settings)
    assert model.description is None
    assert model.run({"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[-1, -1]]
    model.close()
    assert [entry[:2] for entry in loaded] == [("model.onnx", "onnxruntime on the CPU, 2 threads")]


def test_a_graph_for_an_npu_is_refused_on_a_server_for_the_cpu(tmp_path: Path):
    with pytest.raises(Unavailable, match=r"asks for an NPU .* never moved there silently"):
        load_graph(tmp_path, graph(tmp_path, device="npu", file="model.om"), RuntimeSettings())


def test_gears_on_a_cpu_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="gears are for NPU graphs"):
        load_graph(tmp_path, graph(tmp_path, gears=[{"batch": 1}]), RuntimeSettings())


def test_a_graph_without_a_worker_to_run_it_is_a_fault_of_ours(tmp_path: Path):
    with pytest.raises(Internal, match="needs a device worker"):
        load_graph(tmp_path, graph(tmp_path, device="npu", file="model.om"), RuntimeSettings(mode="npu"))


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"VOXREPO_WORKER_PYTHON": "/nowhere/python"}, "VOXREPO_WORKER_PYTHON names /nowhere/python"),
        ({"PATH": "/nowhere"}, "need a python3 in PATH"),
    ],
)
def test_a_worker_that_cannot_be_started_is_refused_by_what_is_wrong(environment: dict[str, str], says: str):
    workers = Workers("npu", 0, 1000, lambda level, line: None, environment=environment)
    with pytest.raises(ConfigError, match=says):
        workers.get("acl", "npu")


def test_a_real_npu_that_is_not_here_is_refused_by_the_worker(tmp_path: Path):
    lines: list[str] = []
    workers = Workers("npu", 0, 1000, lambda level, line: lines.append(line))
    (tmp_path / "model.om").write_bytes(b"IMOD")
    settings = RuntimeSettings(mode="npu", worker=workers.get)
    with pytest.raises(ConfigError, match=r"cannot import acl .*source CANN's set_env\.sh"):
        load_graph(tmp_path, graph(tmp_path, device="npu", file="model.om"), settings)
    workers.close()


def test_one_worker_serves_all_graphs_of_a_runtime():
    workers = Workers("npu", 3, 1000, lambda level, line: None, threads=4)
    assert workers.get("acl", "npu") is workers.get("acl", "npu")
    assert workers.get("torch_npu", "cpu") is not workers.get("torch_npu", "npu")
    assert len(workers.all) == 3
    settings = workers.get("acl", "npu").settings
    assert (settings.device_id, settings.limits.run) == (3, 3.0)
    assert workers.get("torch_npu", "cpu").settings.mode == "cpu"
    assert workers.get("torch_npu", "cpu").settings.options["threads"] == "4"
    assert not workers.are_ready
    workers.close()
