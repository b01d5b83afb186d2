"""Runtime ``onnx``: refusals with the onnxruntime that is here, and its code on the CPU provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from om_backend.choice import WORKER_RUNTIMES
from om_backend.device.client import DeviceWorker
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.onnx_cann import PROVIDER, open_device
from om_backend.device.worker_graph import WorkerGraph
from onnx import helper

from tests.backends.ascend_om.graphs import place
from voxrepo_contract.errors import ConfigError, InvalidArgument

from .conftest import Lines, tiny_settings

INPUTS: Any = [("x", "FP32", ["batch", "n"]), ("w", "FP32", [3])]
OUTPUTS: Any = [("y", "FP32", ["batch", "n"])]
CPU = {"provider": "CPUExecutionProvider"}


@pytest.fixture
def start() -> Iterator[Callable[..., DeviceWorker]]:
    made: list[DeviceWorker] = []

    def start(**options: str) -> DeviceWorker:
        made.append(DeviceWorker(tiny_settings(runtime=WORKER_RUNTIMES["onnx"], options=options), Lines()))
        return made[-1]

    yield start
    for worker in made:
        worker.close()


def test_an_onnxruntime_without_the_provider_is_refused_with_a_sentence(start: Any, tmp_path: Path):
    assert PROVIDER not in ort.get_available_providers(), "the reason for this test"
    spec = place(tmp_path, "model", [helper.make_node("Mul", ["x", "w"], ["y"])], INPUTS, OUTPUTS)
    with pytest.raises(ConfigError, match=r"has the providers .*CPUExecutionProvider and not CANNExecutionProvider; "):
        WorkerGraph(start(), tmp_path / spec.file, spec)


def test_runs_a_graph_in_the_worker(start: Any, tmp_path: Path):
    spec = place(tmp_path, "model", [helper.make_node("Mul", ["x", "w"], ["y"])], INPUTS, OUTPUTS)
    graph = WorkerGraph(start(**CPU), tmp_path / spec.file, spec)
    w = np.array([1, 2, 3], np.float32)
    for rows in (1, 5):
        x = np.random.default_rng(rows).random((rows, 3), np.float32)
        assert (graph.run({"w": w, "x": x})["y"] == x * w).all()
    with pytest.raises(InvalidArgument, match=r"model\.onnx does not take these tensors"):
        graph.run({"w": w, "x": np.ones((2, 4), np.float32)})


def test_a_session_that_onnxruntime_moved_to_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    place(tmp_path, "model", [helper.make_node("Mul", ["x", "w"], ["y"])], INPUTS, OUTPUTS)
    monkeypatch.setattr(ort, "get_available_providers", lambda: [PROVIDER, "CPUExecutionProvider"])
    # onnxruntime itself falls back here, as it does where a device cannot be used
    with pytest.raises(DeviceFault, match=r"put model\.onnx on CPUExecutionProvider instead of CANNExec|cannot load"):
        open_device(0, {}).load(tmp_path / "model.onnx", {})


def test_a_damaged_file_is_refused(tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(b"damaged")
    with pytest.raises(DeviceFault, match=r"cannot load model\.onnx") as caught:
        open_device(0, CPU).load(tmp_path / "model.onnx", {})
    assert caught.value.action is Action.REFUSE
