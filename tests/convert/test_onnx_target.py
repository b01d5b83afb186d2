from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.foreign import convert_file
from voxrepo.convert.onnx_target import OnnxTarget, optimised
from voxrepo.convert.plan import ShapeFlags
from voxrepo.convert.proof_cases import open_session
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.target import find_target
from voxrepo_contract.errors import ConfigError, InvalidArgument

from .graphs import CHANNELS, encoder, generator, model, save


def wasteful() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"], name="same"),
        helper.make_node("Add", ["one", "two"], ["three"], name="three"),
        helper.make_node("Mul", ["same", "three"], ["y"], name="y"),
    ]
    kind = TensorProto.FLOAT
    constants = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("one", 1), ("two", 2))]
    return model(nodes, {"x": (kind, ["n"])}, {"y": (kind, ["n"])}, constants)


def test_constants_are_folded_and_nodes_without_effect_removed():
    made = optimised(wasteful())
    assert [node.op_type for node in made.graph.node] == ["Mul"]
    assert open_session(made.SerializeToString()).run(None, {"x": np.ones(2, np.float32)})[0].tolist() == [3, 3]


@pytest.mark.parametrize("make", [encoder, generator])
def test_the_result_is_portable_and_the_same_every_time(make):
    made = [optimised(make()).SerializeToString(deterministic=True) for _ in range(2)]
    assert made[0] == made[1]
    parsed = onnx.load_from_string(made[0])
    onnx.checker.check_model(parsed)
    assert {entry.domain for entry in parsed.opset_import} == {""}
    assert [value.name for value in parsed.graph.output] == [value.name for value in make().graph.output]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-6), ("fp16", 2e-3)])
def test_a_file_is_written_for_a_cpu(tmp_path: Path, precision: str, tolerance: float):
    source = save(generator(), tmp_path / "g.onnx")
    flags = ShapeFlags(input_shape=f"features:1,{CHANNELS},16")
    made = convert_file(
        source, tmp_path / "out.onnx", OnnxTarget(), parse_soc("Ascend910B3"), flags, precision=precision, command="c"
    )
    assert made.built.is_built and [t.dims for t in made.built.inputs] == [(-1, CHANNELS, -1)]
    features = np.random.default_rng(2).standard_normal((2, CHANNELS, 16)).astype(np.float32)
    one, other = (
        open_session(str(file)).run(["audio"], {"features": features})[0] for file in (source, made.built.file)
    )
    assert np.abs(one - other).max() <= tolerance


@pytest.mark.parametrize("precision", ["mixed", "int8"])
def test_a_file_has_no_texts_to_judge_by(tmp_path: Path, precision: str):
    source = save(generator(), tmp_path / "g.onnx")
    with pytest.raises(InvalidArgument, match=f"{precision} needs texts to judge by"):
        convert_file(
            source,
            tmp_path / "out.om",
            find_target("emulator"),
            parse_soc("Ascend910B3"),
            ShapeFlags(input_shape=f"features:1,{CHANNELS},16"),
            precision=precision,
            command="c",
        )
    assert not (tmp_path / "out.om").exists()


def test_a_folder_that_is_gone_is_said(tmp_path: Path):
    source = save(generator(), tmp_path / "g.onnx")
    with pytest.raises(ConfigError, match="cannot be written"):
        convert_file(
            source, tmp_path / "none" / "o.onnx", OnnxTarget(), parse_soc("Ascend910B3"),
            ShapeFlags(input_shape=f"features:1,{CHANNELS},16"), precision="fp32", command="c",
        )  # fmt: skip
