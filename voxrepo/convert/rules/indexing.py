"""Rules for operators that move or select elements."""

from __future__ import annotations

import math

import numpy as np
import onnx

from voxrepo.convert.rules.workbench import Builder, Workbench
from voxrepo.importers.graph import attribute

MAX_TRIANGLE = 1024
"""Longest axis whose running sum is a product with a triangle; four megabytes of FP32."""
MAX_SCATTER_ELEMENTS = 2**20


def reverse_slice(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """A Slice that steps backwards along axes of known size is a Gather along each."""
    x = node.input[0]
    dims = bench.dims(x)
    starts, ends = (bench.value(bench.input(node, index)) for index in (1, 2))
    steps = bench.value(bench.input(node, 4))
    if dims is None or starts is None or ends is None or steps is None or not (steps < 0).any():
        return None
    given = bench.value(bench.input(node, 3))
    axes = [int(axis) % len(dims) for axis in (range(len(starts)) if given is None else given)]
    if any(dims[axis] is None for axis, step in zip(axes, steps, strict=True) if step < 0):
        return None
    forwards = [k for k, step in enumerate(steps) if step > 0]
    backwards = [k for k, step in enumerate(steps) if step < 0]
    ranges = {}
    for k in backwards:
        size = dims[axes[k]]
        assert size is not None
        ranges[axes[k]] = list(range(*slice(*_bounds(int(starts[k]), int(ends[k]), size), int(steps[k])).indices(size)))
    if not all(ranges.values()):
        return None  # nothing is selected: an empty tensor, which Gather of no indices is not sure to make
    if forwards:
        parts = [build.ints([int(v[k]) for k in forwards]) for v in (starts, ends, np.array(axes), steps)]
        x = build.op("Slice", [x, *parts])
    for number, (axis, indices) in enumerate(ranges.items(), 1):
        x = build.gather(x, indices, axis, node.output[0] if number == len(ranges) else "")
    return f"as Gather of constant indices along axis {', '.join(map(str, ranges))}"


def _bounds(start: int, end: int, size: int) -> tuple[int, int | None]:
    """ONNX counts from the end below 0 and clamps; Python's slices do, once out of range is told apart."""
    first = max(start + size if start < 0 else start, 0)
    last = end + size if end < 0 else end
    return min(first, size - 1), None if last < 0 else last


def cumsum(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """A running sum along an axis of known size is a product with a triangle of ones.

    This holds for finite values: zero times infinity is NaN, so one infinite value would reach the whole axis.
    """
    x = node.input[0]
    dims, dtype, axis = bench.dims(x), bench.dtype(x), bench.value(node.input[1])
    if dims is None or dtype is None or dtype.kind != "f" or axis is None:
        return None
    at = int(axis.reshape(())) % len(dims)
    size = dims[at]
    if size is None or not 0 < size <= MAX_TRIANGLE:
        return None
    exclusive, reverse = attribute(node, "exclusive", 0), attribute(node, "reverse", 0)
    # column j sums the rows up to j
    triangle = np.triu(np.ones((size, size)), k=1 if exclusive else 0)
    weights = build.const(triangle.T if reverse else triangle, dtype)
    if len(dims) == 1:
        row = build.op("MatMul", [build.reshape(x, [1, size]), weights])
        build.reshape(row, [size], node.output[0])
    elif at == len(dims) - 1:
        build.op("MatMul", [x, weights], node.output[0])
    else:
        order = [axis for axis in range(len(dims)) if axis != at] + [at]
        moved = build.op("MatMul", [build.op("Transpose", [x], perm=order), weights])
        build.op("Transpose", [moved], node.output[0], perm=[order.index(axis) for axis in range(len(dims))])
    return f"as MatMul with a triangle of {size} by {size}"


def trilu(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Where with a constant mask; Mul would make NaN of infinities."""
    x = node.input[0]
    dims, dtype = bench.dims(x), bench.dtype(x)
    k = np.array(0) if not bench.input(node, 1) else bench.value(node.input[1])
    if dims is None or len(dims) < 2 or dims[-1] is None or dims[-2] is None or dtype is None or k is None:
        return None
    ones = np.ones((dims[-2], dims[-1]), bool)
    offset = int(k.reshape(()))
    mask = np.triu(ones, offset) if attribute(node, "upper", 1) else np.tril(ones, offset)
    if dtype == np.bool_:
        build.op("And", [build.const(mask, bool), x], node.output[0])
    else:
        build.op("Where", [build.const(mask, bool), x, build.const(0, dtype)], node.output[0])
    return f"as {'And' if dtype == np.bool_ else 'Where'} with a constant mask of {dims[-2]} by {dims[-1]}"


def constant_scatter(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """ScatterND to constant places is a Gather from data and updates side by side."""
    data, updates = node.input[0], node.input[2]
    dims, indices = bench.static_dims(data), bench.value(node.input[1])
    changed = bench.static_dims(updates)
    if dims is None or changed is None or indices is None or attribute(node, "reduction", b"none") != b"none":
        return None
    size = math.prod(dims)
    if not 0 < size <= MAX_SCATTER_ELEMENTS or not math.prod(changed):
        return None
    depth = indices.shape[-1]
    block = math.prod(dims[depth:])
    rows = [tuple(int(i) % dims[axis] for axis, i in enumerate(row)) for row in indices.reshape(-1, depth)]
    if len(set(rows)) != len(rows):
        return None  # which of two updates of one place wins is not defined
    places = np.arange(size, dtype=np.int32).reshape(*dims[:depth], block)
    for number, row in enumerate(rows):
        places[row] = size + number * block + np.arange(block, dtype=np.int32)
    flat = build.op("Concat", [build.reshape(data, [-1]), build.reshape(updates, [-1])], axis=0)
    picked = build.op("Gather", [flat, build.const(places.reshape(-1), np.int32)], axis=0)
    build.reshape(picked, list(dims), node.output[0])
    return f"to {len(rows)} constant places, as Concat and Gather"
