"""Proof that a piece has no data-dependent shape.

All varying axes are fixed, shapes are folded, and shape inference must then know the size of every tensor. What is
left unknown depends on data, which a device that wants fixed shapes cannot run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import shape_inference

from voxrepo_contract.errors import ConversionRefused

_RANDOM_OPS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def _fixed(model: onnx.ModelProto, sizes: Mapping[str, int]) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = sizes[dim.dim_param]
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    return copy


def fold(model: onnx.ModelProto, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """``model`` at fixed sizes, with everything that then is constant folded, and shapes inferred."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(prefix="voxrepo-fold-") as folder:
        target = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(target)
        ort.InferenceSession(_fixed(model, sizes).SerializeToString(), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(target)
    return shape_inference.infer_shapes(folded, data_prop=True)


def static_shapes(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor of ``model`` at fixed sizes.

    Args:
        model: a piece with named axes.
        sizes: a size for every named axis of its inputs.

    Raises:
        ConversionRefused: a tensor's shape depends on data, or a node draws random numbers.
    """
    folded = fold(model, sizes)
    shapes: dict[str, tuple[int, ...]] = {}
    for value in [*folded.graph.input, *folded.graph.value_info, *folded.graph.output]:
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in kind.shape.dim)
    for node in folded.graph.node:
        if node.op_type in _RANDOM_OPS:
            raise ConversionRefused(f"the graph {model.graph.name!r} draws random numbers ({node.op_type})")
        unknown = [name for name in node.output if name and name not in shapes]
        if unknown:
            raise ConversionRefused(
                f"the graph {model.graph.name!r} has a tensor whose shape depends on data "
                f"(output of {node.op_type} {node.name!r})"
            )
    return shapes
