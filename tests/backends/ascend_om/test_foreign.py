from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from om_backend.job import Program
from om_backend.programs import load_program
from om_backend.runtime import RuntimeSettings
from onnx import TensorProto, helper, numpy_helper

from voxrepo_contract.errors import ConfigError, InvalidArgument, Unavailable

from .graphs import run_all

F, INT, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def place(
    folder: Path,
    inputs: Sequence[tuple[str, int, Sequence[Any]]],
    outputs: Sequence[tuple[str, int, Sequence[Any]]],
    nodes: Sequence[Any],
    constants: Mapping[str, npt.NDArray[Any]] | None = None,
    **save: Any,
) -> Path:
    """``model.onnx`` and nothing else; returns its folder."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(*tensor) for tensor in inputs],
        [helper.make_tensor_value_info(*tensor) for tensor in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(folder / "model.onnx"), **save)
    return folder


def doubler(folder: Path, first: Any = "n", second: Any = "n", width: Any = 3) -> Path:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    return place(folder, [("x", F, [first, width])], [("y", F, [second, width])], [node])


def load(folder: Path, max_batch_size: int = 0, **settings: Any) -> Program:
    return load_program(folder, RuntimeSettings(max_batch_size=max_batch_size, **settings), None)


def ones(*shape: int) -> npt.NDArray[np.float32]:
    return np.ones(shape, np.float32)


def test_a_graph_file_alone_is_served(tmp_path: Path):
    program = load(doubler(tmp_path))
    assert program.warm_up() == "one request per call"
    (answer,) = run_all(program, [{"x": ones(5, 3)}])
    assert answer.outputs["y"].tolist() == (2 * ones(5, 3)).tolist()


def test_requests_share_calls_where_the_configuration_has_a_batch_axis(tmp_path: Path):
    program = load(doubler(tmp_path, "a", "b"), max_batch_size=8)
    assert program.warm_up() == "requests share calls"
    answers = run_all(program, [{"x": ones(1, 3)}, {"x": 3 * ones(2, 3)}])
    assert [answer.outputs["y"].tolist() for answer in answers] == [[[2.0] * 3], [[6.0] * 3] * 2]


def test_a_wrong_shape_is_the_requests_fault(tmp_path: Path):
    (answer,) = run_all(load(doubler(tmp_path)), [{"x": ones(5, 4)}])
    assert isinstance(answer.error, InvalidArgument)
    assert "input 'x' must be FP32 ['n', 3], got float32 [5, 4]" in answer.error.message


def test_a_broken_file_is_refused(tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes((doubler(tmp_path) / "model.onnx").read_bytes()[:50])
    with pytest.raises(ConfigError, match=r"model\.onnx: .*damaged"):
        load(tmp_path)


def test_a_folder_with_neither_graph_nor_description_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="holds neither"):
        load(tmp_path)


def test_a_graph_of_cann_s_provider_asks_for_an_npu(tmp_path: Path):
    with pytest.raises(Unavailable, match="the graph asks for an NPU"):
        load(doubler(tmp_path), runtime="onnx")


# Whether rows may be joined


def test_rows_that_influence_each_other_are_not_joined(tmp_path: Path):
    """The first axis is a time: each row is the sum of all before it."""
    node = helper.make_node("CumSum", ["x", "axis"], ["y"])
    folder = place(tmp_path, [("x", F, ["k", 3])], [("y", F, ["k", 3])], [node], {"axis": np.array(0, np.int32)})
    with pytest.raises(ConfigError, match=r"rows of a batch influence each other .* say max_batch_size: 0"):
        load(folder, max_batch_size=4)
    # apart, they are served
    (answer,) = run_all(load(folder), [{"x": ones(2, 3)}])
    assert answer.outputs["y"].tolist() == [[1.0] * 3, [2.0] * 3]
    load(folder, max_batch_size=1)


def test_classes_that_depend_on_other_rows_are_noticed(tmp_path: Path):
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("ArgMax", ["centred"], ["y"], axis=1, keepdims=0),
    ]
    folder = place(tmp_path, [("x", F, ["k", 64])], [("y", INT, ["k"])], nodes)
    with pytest.raises(ConfigError, match=r"a change of .* of the values of output 'y'"):
        load(folder, max_batch_size=4)


def test_random_numbers_are_no_influence(tmp_path: Path):
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["noise"]), helper.make_node("Add", ["x", "noise"], ["y"])]
    load(place(tmp_path, [("x", F, ["k", 3])], [("y", F, ["k", 3])], nodes), max_batch_size=4)


def test_a_graph_that_takes_no_usual_size_is_loaded_untried(tmp_path: Path):
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    folder = place(tmp_path, [("x", F, ["k", "w"])], [("y", F, ["k", 7, 11])], [node], {"shape": np.array([-1, 7, 11])})
    program = load(folder, max_batch_size=4)
    assert "not warmed up, since it runs at none of the sizes" in program.warm_up()
    (answer,) = run_all(program, [{"x": ones(2, 77)}])
    assert answer.outputs["y"].shape == (2, 7, 11)


def test_a_graph_with_a_smallest_size_is_warmed_up_above_it(tmp_path: Path):
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    folder = place(tmp_path, [("x", F, ["n", 1, "t"])], [("y", F, ["n", 1, "u"])], [node], {"w": ones(1, 1, 20)})
    assert load(folder, max_batch_size=4).warm_up() == "requests share calls"


# Kinds of tensors


def test_strings_go_in_and_out(tmp_path: Path):
    nodes = [
        helper.make_node("LabelEncoder", ["word"], ["number"], domain="ai.onnx.ml",
                         keys_strings=["one", "dr\u00fcben"], values_int64s=[1, 2], default_int64=0),
        helper.make_node("LabelEncoder", ["number"], ["name"], domain="ai.onnx.ml",
                         keys_int64s=[1, 2], values_strings=["eins", "\u00fc"], default_string="?"),
    ]  # fmt: skip
    folder = place(tmp_path, [("word", S, ["n", 1])], [("number", INT, ["n", 1]), ("name", S, ["n", 1])], nodes)
    program = load(folder, max_batch_size=4)
    assert program.warm_up() == "requests share calls"
    words = [np.array([[word]], np.object_) for word in (b"one", "dr\u00fcben".encode(), b"\xff")]
    one, two, broken = run_all(program, [{"word": word} for word in words])
    assert [answer.outputs["number"].tolist() for answer in (one, two)] == [[[1]], [[2]]]
    assert [answer.outputs["name"].tolist() for answer in (one, two)] == [[[b"eins"]], [["\u00fc".encode()]]]
    # the others are not hurt by it
    assert isinstance(broken.error, InvalidArgument)
    assert "input 'word' holds text that is not UTF-8" in broken.error.message


def test_a_tensor_without_axes_takes_one_number(tmp_path: Path):
    nodes = [helper.make_node("Mul", ["x", "by"], ["y"]), helper.make_node("Neg", ["by"], ["z"])]
    folder = place(tmp_path, [("x", F, ["t"]), ("by", F, [])], [("y", F, ["t"]), ("z", F, [])], nodes)
    program = load(folder)
    program.warm_up()
    (answer,) = run_all(program, [{"x": ones(2), "by": np.array([3], np.float32)}])
    assert answer.outputs["y"].tolist() == [3.0, 3.0]
    assert np.asarray(answer.outputs["z"]).reshape(-1).tolist() == [-3.0]


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_unsigned_numbers_keep_their_type(tmp_path: Path, dtype: Any):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    folder = place(
        tmp_path, [("x", kind, ["n", 2])], [("y", kind, ["n", 2])], [helper.make_node("Identity", ["x"], ["y"])]
    )
    (answer,) = run_all(load(folder), [{"x": np.array([[1, 2]], dtype)}])
    assert answer.outputs["y"].dtype == dtype


def test_weights_beside_the_graph_are_loaded(tmp_path: Path):
    weights = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    folder = place(
        tmp_path, [("x", F, ["n", 64])], [("y", F, ["n", 64])], [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"w": weights}, save_as_external_data=True, location="weights.bin", size_threshold=0,
    )  # fmt: skip
    assert (folder / "weights.bin").stat().st_size == weights.nbytes
    (answer,) = run_all(load(folder), [{"x": np.eye(64, dtype=np.float32)}])
    np.testing.assert_array_equal(answer.outputs["y"], weights)
