"""Rules for what is special to sound: Fourier transforms, upsampling and padding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx

from voxrepo.convert.rules.workbench import Builder, Workbench
from voxrepo.importers.graph import attribute

MAX_FOURIER = 4096
"""Longest transform that is a product with a matrix; 64 MB of FP32 for a whole one of 4096 points."""

_REAL, _COMPLEX = 1, 2


def dft(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """A transform of known length is a product with the Fourier basis, real and imaginary parts side by side."""
    x = node.input[0]
    dims, dtype = bench.dims(x), bench.dtype(x)
    if dims is None or len(dims) < 2 or dtype is None or dims[-1] not in {_REAL, _COMPLEX}:
        return None
    if bench.opset >= 20:
        given = bench.value(bench.input(node, 2)) if bench.input(node, 2) else np.array(-2)
        if given is None:
            return None
        axis = int(given.reshape(())) % len(dims)
    else:
        axis = attribute(node, "axis", 1) % len(dims)
    if axis == len(dims) - 1:
        return None  # the parts of a number are no signal
    points = dims[axis]
    length = points
    if bench.input(node, 1):
        value = bench.value(node.input[1])
        length = None if value is None else int(value.reshape(()))
    inverse, onesided = attribute(node, "inverse", 0), attribute(node, "onesided", 0)
    if points is None or length is None or max(points, length) > MAX_FOURIER or (inverse and onesided):
        return None
    parts = dims[-1]
    assert parts is not None
    basis = _basis(points, length, parts, inverse=bool(inverse), onesided=bool(onesided))
    bins = basis.shape[1] // _COMPLEX
    order = [a for a in range(len(dims) - 1) if a != axis] + [axis, len(dims) - 1]
    back = [order.index(a) for a in range(len(dims))]
    moved = order != list(range(len(dims)))
    if moved:
        x = build.op("Transpose", [x], perm=order)
    leading = len(dims) - 2
    flat = build.reshape(x, [0] * leading + [points * parts])
    product = build.op("MatMul", [flat, build.const(basis, dtype)])
    shaped = build.reshape(product, [0] * leading + [bins, _COMPLEX], "" if moved else node.output[0])
    if moved:
        build.op("Transpose", [shaped], node.output[0], perm=back)
    return f"{'inverse ' if inverse else ''}transform of {length} points, as MatMul with the Fourier basis"


def _basis(points: int, length: int, parts: int, *, inverse: bool, onesided: bool) -> npt.NDArray[np.float64]:
    """Rows (point, part), columns (bin, part); points beyond ``length`` are cut, missing ones are zero."""
    bins = length // 2 + 1 if onesided else length
    # the product is reduced before the cosine, or large angles would lose digits
    turns = np.outer(np.arange(points), np.arange(bins)) % length
    angle = 2.0 * np.pi * turns / length * (1.0 if inverse else -1.0)
    cos, sin = np.cos(angle), np.sin(angle)
    basis = np.zeros((points, parts, bins, _COMPLEX))
    basis[:, 0, :, 0], basis[:, 0, :, 1] = cos, sin
    if parts == _COMPLEX:
        basis[:, 1, :, 0], basis[:, 1, :, 1] = -sin, cos
    basis[length:] = 0.0
    return basis.reshape(points * parts, bins * _COMPLEX) / (length if inverse else 1)


def stft(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """A short-time transform of real sound is a convolution whose weights are the windowed Fourier basis."""
    x = node.input[0]
    dims, dtype = bench.dims(x), bench.dtype(x)
    step = bench.value(node.input[1])
    window = bench.value(bench.input(node, 2)) if bench.input(node, 2) else None
    if bench.input(node, 2) and window is None:
        return None
    if bench.input(node, 3):
        value = bench.value(node.input[3])
        length = None if value is None else int(value.reshape(()))
    else:
        length = None if window is None else len(window)
    if dims is None or dtype is None or step is None or length is None or length > MAX_FOURIER:
        return None
    if len(dims) not in {2, 3} or (len(dims) == 3 and dims[-1] != _REAL):
        return None
    basis = _basis(length, length, _REAL, inverse=False, onesided=bool(attribute(node, "onesided", 1)))
    bins = basis.shape[1] // _COMPLEX
    if window is not None:
        if len(window) > length:
            return None
        before = (length - len(window)) // 2
        basis *= np.pad(window.astype(np.float64), (before, length - len(window) - before))[:, None]
    kernels = basis.reshape(length, bins, _COMPLEX).transpose(2, 1, 0).reshape(bins * _COMPLEX, 1, length)
    sound = build.reshape(x, [0, 1, -1])
    hop = int(step.reshape(()))
    weights = build.const(kernels, dtype)
    coefficients = build.op("Conv", [sound, weights], kernel_shape=[length], strides=[hop])
    split = build.reshape(coefficients, [0, _COMPLEX, bins, -1])
    build.op("Transpose", [split], node.output[0], perm=[0, 3, 2, 1])
    return f"frames of {length}, every {hop}, as Conv with the windowed Fourier basis"


def conv_transpose(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Output padding, automatic padding and cut kernels, all written as plain pads."""
    mode = attribute(node, "auto_pad", b"NOTSET")
    extra = attribute(node, "output_padding")
    if (mode == b"NOTSET" and not any(extra or ())) or attribute(node, "output_shape") is not None:
        return None
    weights = bench.value(node.input[1])
    if weights is None:
        return None
    axes = weights.ndim - 2
    strides = list(attribute(node, "strides", [1] * axes))
    dilations = list(attribute(node, "dilations", [1] * axes))
    extra = list(extra or [0] * axes)
    begins, ends = [0] * axes, [0] * axes
    if mode == b"NOTSET":
        pads = list(attribute(node, "pads", [0] * 2 * axes))
        begins, ends = pads[:axes], pads[axes:]
    elif mode != b"VALID":
        for axis in range(axes):
            # such that the output is stride times as long
            total = extra[axis] + dilations[axis] * (weights.shape[2 + axis] - 1) + 1 - strides[axis]
            if total < 0:
                return None
            half = total // 2
            begins[axis], ends[axis] = (half, total - half) if mode == b"SAME_UPPER" else (total - half, half)
    grow = [0] * axes
    for axis in range(axes):
        ends[axis] -= extra[axis]
        if ends[axis] < 0:
            if dilations[axis] != 1:
                return None
            grow[axis], ends[axis] = -ends[axis], 0  # taps of zero make the output longer
    kernel = node.input[1]
    if any(grow):
        kernel = build.const(np.pad(weights, [(0, 0), (0, 0), *((0, size) for size in grow)]), weights.dtype)
    shape = [size + more for size, more in zip(weights.shape[2:], grow, strict=True)]
    build.op(
        "ConvTranspose",
        [node.input[0], kernel, *node.input[2:]],
        node.output[0],
        kernel_shape=shape,
        strides=strides,
        dilations=dilations,
        group=attribute(node, "group", 1),
        pads=[*begins, *ends],
    )
    return f"with pads {[*begins, *ends]} in place of {'output_padding' if mode == b'NOTSET' else 'auto_pad'}"


def nearest_resize(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Repeating every frame a whole number of times is Tile."""
    if attribute(node, "mode", b"nearest") != b"nearest" or bench.opset < 11 or attribute(node, "axes") is not None:
        return None
    x = node.input[0]
    dims, scales = bench.dims(x), bench.value(bench.input(node, 2))
    if dims is None or scales is None or scales.size != len(dims) or bench.input(node, 3):
        return None
    factor = int(scales[-1])
    if factor < 2 or factor != scales[-1] or not (scales[:-1] == 1).all():
        return None
    place = attribute(node, "coordinate_transformation_mode", b"half_pixel")
    rounding = attribute(node, "nearest_mode", b"round_prefer_floor")
    exact = (place == b"asymmetric" and rounding == b"floor") or (
        place == b"half_pixel" and rounding in {b"round_prefer_floor", b"round_prefer_ceil"}
    )
    if not exact:
        return None
    column = build.unsqueeze(x, [len(dims)])
    tiled = build.op("Tile", [column, build.ints([1] * len(dims) + [factor])])
    build.reshape(tiled, [0] * (len(dims) - 1) + [-1], node.output[0])
    return f"repeats the last axis {factor} times, as Unsqueeze, Tile and Reshape"


def reflect_pad(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Reflection at the ends of one axis is Slice, Gather with constant indices, and Concat."""
    if attribute(node, "mode", b"constant") != b"reflect" or bench.opset < 11 or bench.input(node, 3):
        return None
    x = node.input[0]
    dims, pads = bench.dims(x), bench.value(node.input[1])
    if dims is None or pads is None or (pads < 0).any():
        return None
    rank = len(dims)
    padded = [axis for axis in range(rank) if pads[axis] or pads[axis + rank]]
    if len(padded) != 1:
        return None
    axis = padded[0]
    before, after = int(pads[axis]), int(pads[axis + rank])
    size = dims[axis]
    if size is not None and size <= max(before, after):
        return None
    parts = [x]
    if before:
        parts.insert(0, build.gather(x, list(range(before, 0, -1)), axis))
    if after:
        # cut first: Gather's indices then are small and not negative whatever the length
        limits = [build.ints([value]) for value in (-after - 1, -1, axis)]
        parts.append(build.gather(build.op("Slice", [x, *limits]), list(range(after - 1, -1, -1)), axis))
    build.op("Concat", parts, node.output[0], axis=axis)
    return f"{before} before and {after} after axis {axis}, as Gather and Concat"
