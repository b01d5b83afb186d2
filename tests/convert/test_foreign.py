from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from voxrepo.convert.foreign import ConvertedFile, convert_file
from voxrepo.convert.plan import ShapeFlags
from voxrepo.convert.refusal import AtcRefusal
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.target import find_target
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError

from .graphs import CHANNELS, HOP, adder, generator, model, nonzero, save


def convert(tmp_path: Path, graph, soc: str = "Ascend910B3", **flags) -> ConvertedFile:
    source = save(graph, tmp_path / "model.onnx")
    return convert_file(
        source,
        tmp_path / "model.om",
        find_target("emulator"),
        parse_soc(soc),
        ShapeFlags(**flags),
        precision="origin",
        command="voxrepo convert model.onnx",
    )


def test_a_static_graph_is_written_with_its_shape(tmp_path: Path):
    made = convert(tmp_path, generator(), input_shape=f"features:1,{CHANNELS},16")
    read = emulated_om.read(made.built.file)
    header = read.header
    assert (header.kind, header.soc, header.precision, header.name) == ("static", "Ascend910B3", "origin", "model")
    assert header.inputs[0].dims == (1, CHANNELS, 16)
    assert header.outputs[0].dims == (1, 1, 16 * HOP)
    assert header.conversion == "voxrepo convert model.onnx"
    assert header.weights_bytes > 0 and header.work_bytes > 0
    session = ort.InferenceSession(read.onnx, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == [1, CHANNELS, 16]
    features = np.ones((1, CHANNELS, 16), np.float32)
    original = ort.InferenceSession(generator().SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {"features": features})[0], original.run(None, {"features": features})[0])


def test_batch_gears_are_written_with_their_outputs(tmp_path: Path):
    made = convert(tmp_path, generator(), input_shape=f"features:-1,{CHANNELS},16", dynamic_batch="1,4")
    header = emulated_om.read_header(made.built.file)
    assert header.kind == "batch_gears"
    assert header.gears == ({"features": (1, CHANNELS, 16)}, {"features": (4, CHANNELS, 16)})
    assert header.outputs_by_gear == ({"audio": (1, 1, 16 * HOP)}, {"audio": (4, 1, 16 * HOP)})
    assert header.outputs[0].dims == (-1, 1, 16 * HOP)


def test_dims_gears_are_written_in_the_order_of_the_flag(tmp_path: Path):
    f = TensorProto.FLOAT
    graph = model(
        [helper.make_node("Mul", ["a", "b"], ["y"])],
        {"a": (f, ["n", "t"]), "b": (f, ["n", "t"])},
        {"y": (f, ["n", "t"])},
        [],
    )
    made = convert(tmp_path, graph, input_shape="b:1,-1;a:1,-1", dynamic_dims="4,4;9,9")
    header = emulated_om.read_header(made.built.file)
    assert header.kind == "dims_gears"
    assert header.input_order == ("b", "a")
    assert [tensor.name for tensor in header.inputs] == ["a", "b"]
    assert header.outputs_by_gear == ({"y": (1, 4)}, {"y": (1, 9)})


def test_ranges_bound_the_outputs(tmp_path: Path):
    made = convert(tmp_path, generator(), input_shape=f"features:1~2,{CHANNELS},8~16")
    header = emulated_om.read_header(made.built.file)
    assert header.kind == "range"
    assert header.inputs[0].ranges == ((1, 2), (CHANNELS, CHANNELS), (8, 16))
    assert header.outputs[0].dims == (-1, 1, -1)
    assert header.outputs[0].ranges == ((1, 2), (1, 1), (8 * HOP, 16 * HOP))
    assert not header.unbounded_outputs


def test_ranges_without_an_end_leave_the_outputs_unbounded(tmp_path: Path):
    made = convert(tmp_path, adder(["n", 4]), input_shape_range="x:[-1,4]")
    header = emulated_om.read_header(made.built.file)
    assert header.outputs[0].ranges == ((1, -1), (4, 4))
    assert header.unbounded_outputs


def test_an_output_that_depends_on_values_is_unbounded(tmp_path: Path):
    made = convert(tmp_path, nonzero(), input_shape="x:3,4")
    header = emulated_om.read_header(made.built.file)
    assert (header.kind, header.outputs[0].dims, header.unbounded_outputs) == ("static", (2, -1), True)


def test_gears_over_values_are_refused(tmp_path: Path):
    with pytest.raises(AtcRefusal, match=r"E10001: gears need .*NonZero.* depends on values"):
        convert(tmp_path, nonzero(), input_shape="x:-1,4", dynamic_batch="1,2")
    assert not (tmp_path / "model.om").exists()


def test_the_310b_takes_no_ranges(tmp_path: Path):
    with pytest.raises(AtcRefusal, match="Ascend310B4 does not run graphs with ranges"):
        convert(tmp_path, adder(["n", 4]), soc="Ascend310B4", input_shape="x:1~2,4")


def test_a_refusal_leaves_the_old_file_as_it_was(tmp_path: Path):
    (tmp_path / "model.om").write_bytes(b"old")
    with pytest.raises(AtcRefusal, match="E19010"):
        convert(tmp_path, adder([2], op="Gelu", opset=20))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.om", "model.onnx"]
    assert (tmp_path / "model.om").read_bytes() == b"old"


def test_the_same_input_gives_the_same_bytes(tmp_path: Path):
    flags = {"input_shape": f"features:-1,{CHANNELS},16", "dynamic_batch": "1,4"}
    first = convert(tmp_path, generator(), **flags).built.file.read_bytes()
    assert convert(tmp_path, generator(), **flags).built.file.read_bytes() == first


def test_the_target_must_be_a_file_in_a_folder(tmp_path: Path):
    source = save(adder([2]), tmp_path / "model.onnx")
    for output in (tmp_path, tmp_path / "no" / "model.om"):
        with pytest.raises(ConfigError, match="give -o the name of a file"):
            convert_file(source, output, find_target("emulator"), parse_soc("Ascend910B3"), ShapeFlags(),
                         precision="origin", command="")  # fmt: skip
    with pytest.raises(ConfigError, match="is the source itself"):
        convert_file(source, source, find_target("emulator"), parse_soc("Ascend910B3"), ShapeFlags(),
                     precision="origin", command="")  # fmt: skip


def test_a_precision_that_is_no_tier_is_refused():
    with pytest.raises(AtcRefusal, match="E10001: --precision 'fp8' is not offered; choose fp32, fp16, mixed, int8"):
        find_target("emulator").check_precision("fp8")


def test_an_unknown_target_is_refused():
    with pytest.raises(AtcRefusal, match="--target 'gpu' is not offered; choose ascend, emulator or onnx"):
        find_target("gpu")
