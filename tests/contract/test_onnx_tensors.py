from __future__ import annotations

import pickle
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.onnx_tensors import DTYPES, OnnxTensor, read_onnx_tensors


def save(folder: Path, inputs: list[Any], outputs: list[Any], nodes: list[Any] | None = None, **more: Any) -> Path:
    """An ONNX file with the given descriptions; the nodes need not make sense to be read."""
    nodes = nodes or [helper.make_node("Identity", [inputs[0].name], [outputs[0].name])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, **more))
    file = folder / "model.onnx"
    onnx.save(model, str(file))
    return file


def tensor(name: str, elem_type: int = TensorProto.FLOAT, dims: Any = ("batch", 3)) -> Any:
    return helper.make_tensor_value_info(name, elem_type, dims)


def test_names_types_and_dims_are_those_of_the_file(tmp_path: Path):
    file = save(
        tmp_path,
        [tensor("x:0", TensorProto.INT64, ["batch", None, 7]), tensor("s", dims=[])],
        [tensor("caf\u00e9", TensorProto.UINT8, [2])],
    )
    found = read_onnx_tensors(file)
    assert found.inputs == (OnnxTensor("x:0", "INT64", ("batch", None, 7)), OnnxTensor("s", "FP32", ()))
    assert found.outputs == (OnnxTensor("caf\u00e9", "UINT8", (2,)),)
    assert found.external_files == ()


@pytest.mark.parametrize(("elem_type", "name"), DTYPES.items())
def test_every_type_that_a_request_can_carry_has_its_name(tmp_path: Path, elem_type: int, name: str):
    file = save(tmp_path, [tensor("x", elem_type)], [tensor("y", elem_type)])
    assert read_onnx_tensors(file).inputs[0].dtype == name


def test_the_names_of_types_are_those_of_the_onnx_package():
    numpy_names = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "STRING": "BYTES"}
    for number, name in DTYPES.items():
        theirs = TensorProto.DataType.Name(number)
        assert numpy_names.get(theirs, theirs) == name


def test_a_missing_shape_is_not_a_scalar(tmp_path: Path):
    file = save(tmp_path, [tensor("x")], [tensor("y", dims=None)])
    assert read_onnx_tensors(file).outputs[0].dims is None


def test_a_size_of_minus_one_varies(tmp_path: Path):
    file = save(tmp_path, [tensor("x", dims=[-1, 3])], [tensor("y")])
    assert read_onnx_tensors(file).inputs[0].dims == (None, 3)


def test_constants_listed_as_inputs_are_left_out(tmp_path: Path):
    weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    file = save(tmp_path, [tensor("x"), tensor("w", dims=[3, 3])], [tensor("y")], initializer=[weight])
    assert [found.name for found in read_onnx_tensors(file).inputs] == ["x"]


def test_files_with_weights_beside_the_model_are_named(tmp_path: Path):
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [tensor("x", dims=["n", 64])],
            [tensor("y", dims=["n", 64])],
            [weight],
        )
    )
    file = tmp_path / "model.onnx"
    onnx.save(model, str(file), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert read_onnx_tensors(file).external_files == ("weights.bin",)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None), "is a sequence.*zipmap=False"),
        (
            helper.make_value_info("y", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))),
            "is an optional value",
        ),
        (helper.make_sparse_tensor_value_info("y", TensorProto.FLOAT, [2]), "is a sparse tensor"),
        (tensor("y", TensorProto.BFLOAT16), "element type BFLOAT16, which no request can carry; cast it"),
        (tensor("y", TensorProto.COMPLEX64), "element type COMPLEX64"),
        (tensor("y", dims=[0, 3]), r"shape \[0, 3\], and no request can carry an axis of size 0"),
    ],
)
def test_what_no_request_can_carry_is_refused_by_name(tmp_path: Path, kind: Any, says: str):
    file = save(tmp_path, [tensor("x")], [kind])
    with pytest.raises(ConfigError, match=rf"output 'y' (is|has) .*{says.removeprefix('is ')}" if says.startswith("is ")
                       else f"output 'y' has the {says}") as caught:  # fmt: skip
        read_onnx_tensors(file)
    assert caught.value.file == file


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (pickle.dumps({"a": 1}), "is a Python pickle.*never unpickled"),
        (b"PK\x03\x04" + b"\0" * 60, "is a ZIP file"),
        (b"IMOD" + b"\0" * 300, "is an OM file for an NPU; name it .om"),
        (b"version https://git-lfs.github.com/spec/v1\n", "only a pointer"),
        (b"<html>404</html>", "plain text"),
        (b"\x08\x07", "has 0 graphs"),
        (b"\xff" * 100, "damaged"),
        (b"\x08\x07\x3a\xff\xff\xff\xff\x7f", "too far"),
        (b"\x08\x07\x3a\x00\x3a\x00", "has 2 graphs"),
        (b"\x08\x07\x3a\x00", "graph has no operators"),
    ],
)
def test_what_is_no_onnx_file_is_refused_with_a_reason(tmp_path: Path, content: bytes, says: str):
    file = tmp_path / "model.onnx"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        read_onnx_tensors(file)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path):
    file = save(tmp_path, [tensor("x")], [tensor("y")])
    whole = file.read_bytes()
    for end in range(len(whole) - 1):
        file.write_bytes(whole[:end])
        try:
            found = read_onnx_tensors(file)
        except ConfigError:
            continue
        # what follows the graph may be missing without harm to the tensors
        assert [found.inputs[0].name, found.outputs[0].name] == ["x", "y"]


def test_damaged_files_never_crash_the_reader_nor_keep_it_busy(tmp_path: Path):
    weight = numpy_helper.from_array(np.ones((3, 3), np.float32), "w")
    file = save(tmp_path, [tensor("x"), tensor("s", dims=["batch"])], [tensor("y")], initializer=[weight])
    whole = file.read_bytes()
    chance = random.Random(5)
    start = time.monotonic()
    refused = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data[: chance.randint(1, len(data))] if chance.random() < 0.3 else data)
        try:
            read_onnx_tensors(file)
        except ConfigError:
            refused += 1
    assert refused > 500
    assert time.monotonic() - start < 60


def test_a_file_of_nothing_but_tiny_fields_ends_soon(tmp_path: Path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"\x08\x07" + b"\x28\x00" * 3_000_000)
    start = time.monotonic()
    with pytest.raises(ConfigError, match="more than 2000000 items"):
        read_onnx_tensors(file)
    assert time.monotonic() - start < 30
