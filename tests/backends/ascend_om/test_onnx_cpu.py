from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.onnx_cpu import OnnxGraph, session_options
from om_backend.programs import load_program
from om_backend.runtime import RuntimeSettings, load_graph
from onnx import helper

from voxrepo_contract.errors import ConfigError, Internal, Unavailable
from voxrepo_contract.stage import GraphSpec, TextFrontendOptions, TextFrontendStage, write_stage

from .graphs import Tensors, describe, place, place_direct, place_vocoder

INPUTS: Tensors = [("x", "FP32", ["batch", 2])]
OUTPUTS: Tensors = [("y", "FP32", ["batch", 2])]
NODES = [helper.make_node("Neg", ["x"], ["y"])]


def graph(folder: Path, **changes: Any) -> GraphSpec:
    spec = place(folder, "model", NODES, INPUTS, OUTPUTS)
    return spec.model_copy(update=changes)


def test_runs_a_graph(tmp_path: Path):
    loaded = load_graph(tmp_path, graph(tmp_path), RuntimeSettings(threads=2))
    assert loaded.run({"x": np.array([[1, -2]], np.float32)})["y"].tolist() == [[-1, 2]]


def test_runs_a_graph_from_a_path_with_blanks_and_letters_of_all_kinds(tmp_path: Path):
    folder = tmp_path / "m\u00f6del \u4f60\u597d"
    folder.mkdir()
    loaded = load_graph(folder, graph(folder), RuntimeSettings())
    assert loaded.run({"x": np.zeros((1, 2), np.float32)})["y"].shape == (1, 2)


def test_threads_are_those_asked_for_and_do_not_spin():
    options = session_options(3)
    assert options.intra_op_num_threads == 3
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert not options.enable_mem_pattern


@pytest.mark.parametrize("data", [b"", b"not a graph", bytes(100)])
def test_a_corrupt_file_is_refused_by_name(tmp_path: Path, data: bytes):
    spec = graph(tmp_path)
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(ConfigError, match=r"model\.onnx: onnxruntime cannot load this graph: "):
        OnnxGraph(tmp_path / "model.onnx", spec, RuntimeSettings())


def test_a_truncated_file_is_refused(tmp_path: Path):
    place_vocoder(tmp_path)
    file = tmp_path / "generator.onnx"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ConfigError, match=r"generator\.onnx: sha256 is"):
        load_program(tmp_path, RuntimeSettings(), None)


@pytest.mark.parametrize(
    ("inputs", "outputs", "says"),
    [
        ([("u", "FP32", ["batch", 2])], OUTPUTS, "lists the inputs {'u': 'FP32'}, the graph has {'x': 'FP32'}"),
        ([("x", "INT64", ["batch", 2])], OUTPUTS, "lists the inputs {'x': 'INT64'}, the graph has {'x': 'FP32'}"),
        ([*INPUTS, ("u", "FP32", [1])], OUTPUTS, "lists the inputs {'x': 'FP32', 'u': 'FP32'}"),
        (INPUTS, [("v", "FP32", ["batch", 2])], "lists the outputs {'v': 'FP32'}, the graph has {'y': 'FP32'}"),
    ],
)
def test_tensors_other_than_those_listed_are_refused(tmp_path: Path, inputs: Tensors, outputs: Tensors, says: str):
    graph(tmp_path)
    spec = describe(tmp_path / "model.onnx", inputs, outputs)
    with pytest.raises(ConfigError) as caught:
        load_graph(tmp_path, spec, RuntimeSettings())
    assert says in caught.value.message
    assert caught.value.file == tmp_path / "model.onnx"


def test_a_failing_call_names_the_graph_and_the_shapes(tmp_path: Path):
    loaded = load_graph(tmp_path, graph(tmp_path), RuntimeSettings())
    with pytest.raises(Internal, match=r"model\.onnx failed on {'x': \[1, 3\]}"):
        loaded.run({"x": np.zeros((1, 3), np.float32)})


def test_a_graph_for_an_npu_is_refused_where_there_is_none(tmp_path: Path):
    with pytest.raises(Unavailable, match=r"asks for an NPU .*, or serve a version with device: cpu"):
        load_graph(tmp_path, graph(tmp_path, device="npu"), RuntimeSettings())


def test_a_file_that_a_cpu_does_not_run_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"model\.om: .*device cpu runs \.onnx graphs"):
        load_graph(tmp_path, graph(tmp_path, file="model.om"), RuntimeSettings())


def test_a_changed_graph_is_refused_before_it_is_loaded(tmp_path: Path):
    place_direct(tmp_path, NODES, INPUTS, OUTPUTS)
    other = place(tmp_path, "other", [helper.make_node("Abs", ["x"], ["y"])], INPUTS, OUTPUTS)
    (tmp_path / other.file).replace(tmp_path / "model.onnx")
    with pytest.raises(ConfigError, match=r"model\.onnx: sha256 is"):
        load_program(tmp_path, RuntimeSettings(), None)


def test_a_program_of_another_backend_is_refused(tmp_path: Path):
    options = TextFrontendOptions(language="en-US", phonemizer="espeak", phonemizer_voice="en-us", speakers=["joe"])
    write_stage(tmp_path, TextFrontendStage(program="text_frontend", stage="text_frontend", options=options))
    with pytest.raises(ConfigError, match=r"stage\.yaml: program 'text_frontend' is not one that ascend_om runs"):
        load_program(tmp_path, RuntimeSettings(), None)
