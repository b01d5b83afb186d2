"""Rules for normalisations that ATC's ONNX front end has no parser for."""

from __future__ import annotations

import numpy as np
import onnx

from voxrepo.convert.rules.workbench import Builder, Workbench
from voxrepo.importers.graph import attribute


def layer_normalization(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the last axes."""
    x = node.input[0]
    dims, dtype = bench.dims(x), bench.dtype(x)
    if dims is None or dtype is None or not bench.only_first_output(node):
        return None
    axis = attribute(node, "axis", -1)
    axes = list(range(axis % len(dims), len(dims)))
    epsilon = build.const(attribute(node, "epsilon", 1e-5), dtype)
    centred = build.op("Sub", [x, build.reduce("ReduceMean", x, axes)])
    variance = build.reduce("ReduceMean", build.op("Mul", [centred, centred]), axes)
    deviation = build.op("Sqrt", [build.op("Add", [variance, epsilon])])
    bias = bench.input(node, 2)
    normal = build.op("Div", [centred, deviation])
    scaled = build.op("Mul", [normal, node.input[1]], "" if bias else node.output[0])
    if bias:
        build.op("Add", [scaled, bias], node.output[0])
    return "built from ReduceMean, Sub, Mul, Sqrt, Div" + (" and Add" if bias else "")


def group_normalization(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Groups as channels of an InstanceNormalization, then scale and bias of every channel."""
    x, groups = node.input[0], attribute(node, "num_groups")
    dims, dtype = bench.dims(x), bench.dtype(x)
    scale, bias = bench.value(node.input[1]), bench.value(node.input[2])
    if dims is None or len(dims) < 3 or dims[1] is None or dtype is None or scale is None or bias is None:
        return None
    channels = dims[1]
    if bench.opset < 21:  # one scale per group there
        scale, bias = np.repeat(scale, channels // groups), np.repeat(bias, channels // groups)
    if sum(dim is None for dim in dims[2:]) > 1:
        return None  # one size at most can be left to Reshape
    back = [0, channels, *(-1 if dim is None else dim for dim in dims[2:])]
    ones, zeros = build.const(np.ones(groups), dtype), build.const(np.zeros(groups), dtype)
    grouped = build.reshape(x, [0, groups, -1])
    epsilon = attribute(node, "epsilon", 1e-5)
    normal = build.op("InstanceNormalization", [grouped, ones, zeros], epsilon=epsilon)
    restored = build.reshape(normal, back)
    shape = [channels] + [1] * (len(dims) - 2)
    scaled = build.op("Mul", [restored, build.const(scale.reshape(shape), dtype)])
    build.op("Add", [scaled, build.const(bias.reshape(shape), dtype)], node.output[0])
    return f"{groups} groups of {channels // groups} channels, as InstanceNormalization, Mul and Add"
