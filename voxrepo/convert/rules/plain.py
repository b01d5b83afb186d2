"""Rules for pointwise operators and operators that do nothing."""

from __future__ import annotations

import math

import numpy as np
import onnx

from voxrepo.convert.rules.workbench import Builder, Workbench
from voxrepo.importers.graph import attribute


def identity(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Remove Identity, and Dropout that does not train."""
    if node.op_type == "Dropout":
        training = bench.input(node, 2)
        if training:
            value = bench.value(training)
            if value is None or bool(value):
                return None
        elif bench.opset < 7:
            return None
    source, result = node.input[0], node.output[0]
    if result in bench.output_names() or not bench.only_first_output(node):
        return None  # an output keeps its name
    build.aliases[result] = source
    return "removed, it does nothing"


def gelu(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Half of x * (1 + erf(x / sqrt 2)), or its approximation by tanh."""
    x = node.input[0]
    dtype = bench.dtype(x)
    if dtype is None:
        return None
    one, half = build.const(1.0, dtype), build.const(0.5, dtype)
    if attribute(node, "approximate", b"none") == b"tanh":
        cubic = build.op("Mul", [build.op("Mul", [x, x]), x])
        inner = build.op("Add", [x, build.op("Mul", [cubic, build.const(0.044715, dtype)])])
        bent = build.op("Tanh", [build.op("Mul", [inner, build.const(math.sqrt(2.0 / math.pi), dtype)])])
    else:
        bent = build.op("Erf", [build.op("Mul", [x, build.const(math.sqrt(0.5), dtype)])])
    build.op("Mul", [build.op("Mul", [x, half]), build.op("Add", [bent, one])], node.output[0])
    return "built from Mul, Add and " + ("Tanh" if attribute(node, "approximate", b"none") == b"tanh" else "Erf")


def mish(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Product of x and tanh(softplus(x))."""
    x = node.input[0]
    build.op("Mul", [x, build.op("Tanh", [build.op("Softplus", [x])])], node.output[0])
    return "built from Softplus, Tanh and Mul"


def square(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Pow with the exponent 2 is a product."""
    exponent = bench.value(node.input[1])
    if (
        exponent is None
        or exponent.size != 1
        or float(exponent.reshape(())) != 2.0
        or not bench.is_float(node.input[0])
    ):
        return None
    if exponent.ndim > len(bench.dims(node.input[0]) or ()):
        return None  # the exponent would add axes
    build.op("Mul", [node.input[0], node.input[0]], node.output[0])
    return "the square, as a product"


def one_sided_clip(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Clip with a single bound is Max or Min."""
    if bench.opset < 11:
        return None
    x, low, high = node.input[0], bench.input(node, 1), bench.input(node, 2)
    if bool(low) == bool(high):
        return None
    dtype = bench.dtype(x)
    if dtype is None or dtype.kind not in "fi" or dtype.itemsize < 2 or dtype == np.int16:
        return None  # Max and Min of the smallest integers have no kernel everywhere
    operator = "Max" if low else "Min"
    build.op(operator, [x, low or high], node.output[0])
    return f"has one bound, is {operator}"


def random_input(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Noise becomes an input of the graph, standard normal or uniform from 0 to 1, scaled as the operator did."""
    like = node.op_type.endswith("Like")
    dims = bench.dims(node.input[0]) if like else tuple(attribute(node, "shape"))
    if dims is None:
        return None
    kind = attribute(node, "dtype", bench.elem_types.get(node.input[0], 1) if like else 1)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    normal = "Normal" in node.op_type
    if normal:
        scale, offset = attribute(node, "scale", 1.0), attribute(node, "mean", 0.0)
    else:
        low, high = attribute(node, "low", 0.0), attribute(node, "high", 1.0)
        scale, offset = high - low, low
    name = bench.fresh("noise")
    named = _dim_names(bench, node.input[0]) if like else {}
    shape = [named.get(axis, f"{name}_axis_{axis}") if dim is None else dim for axis, dim in enumerate(dims)]
    bench.model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    scaled = build.op("Mul", [name, build.const(scale, dtype)])
    build.op("Add", [scaled, build.const(offset, dtype)], node.output[0])
    law = "standard normal" if normal else "uniform from 0 to 1"
    return f"the graph has a new input {name!r} {shape}: {law}, filled by the host"


def _dim_names(bench: Workbench, tensor: str) -> dict[int, str]:
    for value in bench.model.graph.input:
        if value.name == tensor:
            return {axis: d.dim_param for axis, d in enumerate(value.type.tensor_type.shape.dim) if d.dim_param}
    return {}
