"""Small emulated models of each kind, made from ONNX graphs that are made here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import OmHeader, OmTensor

_ONNX = {
    "FP32": TensorProto.FLOAT,
    "FP16": TensorProto.FLOAT16,
    "INT64": TensorProto.INT64,
    "BF16": TensorProto.BFLOAT16,
}

SOC = "Ascend910B3"
WEIGHTS_BYTES = 1 << 20
WORK_BYTES = 2 << 20


def _graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[OmTensor],
    outputs: Sequence[OmTensor],
    constants: Sequence[onnx.TensorProto] = (),
) -> bytes:
    def info(tensor: OmTensor) -> onnx.ValueInfoProto:
        dims = [f"{tensor.name}_{axis}" if dim == -1 else dim for axis, dim in enumerate(tensor.dims)]
        return helper.make_tensor_value_info(tensor.name, _ONNX[tensor.dtype], dims)

    graph = helper.make_graph(nodes, "g", [info(t) for t in inputs], [info(t) for t in outputs], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return bytes(model.SerializeToString())


def _write(file: Path, kind: str, onnx_bytes: bytes, inputs, outputs, **more) -> Path:
    header = OmHeader(
        **{
            "name": file.stem,
            "soc": SOC,
            "kind": kind,
            "inputs": tuple(inputs),
            "outputs": tuple(outputs),
            "weights_bytes": WEIGHTS_BYTES,
            "work_bytes": WORK_BYTES,
            **more,
        }
    )
    emulated_om.write(file, header, onnx_bytes)
    return file


def _doubled(dtype: str = "FP32") -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    two = numpy_helper.from_array(np.array(2, np.float16 if dtype == "FP16" else np.float32), "two")
    return [helper.make_node("Mul", ["x", "two"], ["y"])], [two]


def static(file: Path, dtype: str = "FP32", **more) -> Path:
    """``y = 2 x``, x and y ``[2, 8]``."""
    x, y = OmTensor("x", dtype, (2, 8)), OmTensor("y", dtype, (2, 8))
    nodes, constants = _doubled(dtype)
    return _write(file, "static", _graph(nodes, [x], [y], constants), [x], [y], **more)


def batch_gears(file: Path, batches: Sequence[int] = (1, 2, 4), width: int = 8, **more) -> Path:
    """``y = 2 x``, x and y ``[batch, width]``."""
    x, y = OmTensor("x", "FP32", (-1, width)), OmTensor("y", "FP32", (-1, width))
    nodes, constants = _doubled()
    gears = tuple({"x": (batch, width)} for batch in batches)
    return _write(file, "batch_gears", _graph(nodes, [x], [y], constants), [x], [y], gears=gears, **more)


def dims_gears(file: Path, lengths: Sequence[int] = (16, 64, 32), **more) -> Path:
    """``y = x mask``, ``total = sum(y) scale``; ``--input_shape`` named the mask first."""
    scale = OmTensor("scale", "FP32", (1,))
    x, mask = OmTensor("x", "FP32", (1, 2, -1)), OmTensor("mask", "FP32", (1, -1))
    y, total = OmTensor("y", "FP32", (1, 2, -1)), OmTensor("total", "FP32", (1,))
    nodes = [
        helper.make_node("Mul", ["x", "mask"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "scale"], ["total"]),
    ]
    inputs, outputs = [x, scale, mask], [y, total]
    gears = tuple({"x": (1, 2, length), "scale": (1,), "mask": (1, length)} for length in lengths)
    order = ("mask", "x", "scale")
    return _write(
        file, "dims_gears", _graph(nodes, inputs, outputs), inputs, outputs, gears=gears, input_order=order, **more
    )


def ranged(file: Path, **more) -> Path:
    """``y = 2 x``, x and y ``[1..8, 1..512]``."""
    ranges = ((1, 8), (1, 512))
    x, y = OmTensor("x", "FP32", (-1, -1), ranges), OmTensor("y", "FP32", (-1, -1), ranges)
    nodes, constants = _doubled()
    return _write(file, "range", _graph(nodes, [x], [y], constants), [x], [y], **more)


def unbounded(file: Path, **more) -> Path:
    """``y = x[:1]`` repeated ``sum(durations)`` times: the output's size is a matter of values."""
    x = OmTensor("x", "FP32", (1,))
    durations = OmTensor("durations", "INT64", (-1,), ((1, -1),))
    y, count = OmTensor("y", "FP32", (-1,), ((0, -1),)), OmTensor("count", "INT64", (1,))
    nodes = [
        helper.make_node("ReduceSum", ["durations"], ["count"], keepdims=1),
        helper.make_node("Expand", ["x", "count"], ["y"]),
    ]
    inputs, outputs = [x, durations], [y, count]
    return _write(file, "range", _graph(nodes, inputs, outputs), inputs, outputs, **{"unbounded_outputs": True, **more})


LONG_NAME = "encoder/" + "layer_norm/" * 14 + "x"


def long_name(file: Path) -> Path:
    """``y = 2 x`` with an input name of more than 127 characters."""
    x, y = OmTensor(LONG_NAME, "FP32", (4,)), OmTensor("y", "FP32", (4,))
    _, constants = _doubled()
    nodes = [helper.make_node("Mul", [LONG_NAME, "two"], ["y"])]
    return _write(file, "static", _graph(nodes, [x], [y], constants), [x], [y])


def image_gears(file: Path) -> Path:
    """An image model with gears of H and W."""
    x, y = OmTensor("x", "FP32", (1, 3, -1, -1)), OmTensor("y", "FP32", (1, 3, -1, -1))
    nodes, constants = _doubled()
    gears = ({"x": (1, 3, 8, 8)}, {"x": (1, 3, 16, 16)})
    return _write(file, "image_gears", _graph(nodes, [x], [y], constants), [x], [y], gears=gears)


def brain_float(file: Path) -> Path:
    """A graph whose input is BF16."""
    x, y = OmTensor("x", "BF16", (4,)), OmTensor("y", "FP32", (4,))
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)]
    return _write(file, "static", _graph(nodes, [x], [y]), [x], [y])


def with_aipp(file: Path) -> Path:
    """A model with an input for image preprocessing."""
    x, y = OmTensor("x", "FP32", (2, 8)), OmTensor("y", "FP32", (2, 8))
    aipp = OmTensor("ascend_dynamic_aipp_data", "UINT8", (64,))
    nodes, constants = _doubled()
    return _write(file, "static", _graph(nodes, [x], [y], constants), [x, aipp], [y])
