"""Graphs of a few nodes, run before and after the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.rules import AppliedRule, apply_rules
from voxrepo.convert.soc import parse_soc

SOC = parse_soc("Ascend310P3")
F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741
TOLERANCE = 1e-5

Array = npt.NDArray[Any]


def node(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), number: int = 0, **attributes: Any
) -> onnx.NodeProto:
    name = f"/net/block.{number}/{op_type}"
    return helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, Array] | None = None,
    *,
    outputs: Mapping[str, int] | None = None,
    kinds: Mapping[str, int] | None = None,
    opset: int = 17,
    domain: str = "",
) -> onnx.ModelProto:
    made = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, (kinds or {}).get(name, F), dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in (outputs or {"y": F}).items()],
        initializer=[numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(made, opset_imports=imports)
    model.ir_version = 8
    inferred = onnx.shape_inference.infer_shapes(model)
    for value, found in zip(made.output, inferred.graph.output, strict=True):
        if found.type.tensor_type.HasField("shape"):
            value.CopyFrom(found)
        else:
            value.type.tensor_type.shape.SetInParent()
    model.graph.CopyFrom(made)
    return model


def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def noise(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(entry.op_type for entry in model.graph.node)


def rules_used(applied: Sequence[AppliedRule]) -> set[str]:
    return {entry.rule for entry in applied}


def assert_replaced(model: onnx.ModelProto, rule: str, operator: str, *feeds: Mapping[str, Array]) -> onnx.ModelProto:
    """The rule is applied, the operator gone, and the outputs are the same on every feed."""
    before = model.SerializeToString(deterministic=True)
    made, applied = apply_rules(model, SOC)
    assert model.SerializeToString(deterministic=True) == before, "the given model was changed"
    assert rule in rules_used(applied), applied
    assert operators(made)[operator] == 0, operators(made)
    onnx.checker.check_model(made)
    for feed in feeds:
        for old, new in zip(run(model, feed), run(made, feed), strict=True):
            assert old.shape == new.shape
            assert old.dtype == new.dtype
            np.testing.assert_allclose(new, old, rtol=TOLERANCE, atol=TOLERANCE)
            assert np.abs(old.astype(np.float64)).max() > 1e-3, "an output of zeros proves nothing"
    return made


def assert_left_alone(model: onnx.ModelProto, rule: str, operator: str) -> None:
    """The rule does not apply, and the operator is still there."""
    made, applied = apply_rules(model, SOC)
    assert rule not in rules_used(applied), applied
    assert operators(made)[operator] == operators(model)[operator]
