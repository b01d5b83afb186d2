"""What TensorFlow Lite's operators compute, in numpy, as literally as can be.

For proofs: slow, plain, and without anything in common with the graphs that are proved. Images are [batch, height,
width, channels], as in the files. Quantised weights are used as real numbers; the runtime's own way to quantise
activations on the fly is an approximation of that and is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Options = Mapping[str, Any]
Kernel = Callable[[Sequence[Any], Options], Any]

_SAME = 0
_REFLECT = 0


def _activated(value: Array, options: Options) -> Array:
    activation = options.get("FusedActivationFunction", 0)
    if activation == 0:
        return value
    if activation == 1:
        return np.maximum(value, 0)
    raise NotImplementedError(f"fused activation {activation}")


def _binary(function: Callable[[Array, Array], Array]) -> Kernel:
    return lambda inputs, options: _activated(function(inputs[0], inputs[1]), options)


def _unary(function: Callable[[Array], Array]) -> Kernel:
    return lambda inputs, _options: function(inputs[0])


def _reduction(function: Callable[..., Array]) -> Kernel:
    def run(inputs: Sequence[Any], options: Options) -> Array:
        axes = tuple(int(axis) for axis in np.atleast_1d(inputs[1]))
        return function(inputs[0], axis=axes, keepdims=bool(options.get("KeepDims", False)), dtype=inputs[0].dtype)

    return run


def _maximum(inputs: Sequence[Any], options: Options) -> Array:
    axes = tuple(int(axis) for axis in np.atleast_1d(inputs[1]))
    return np.asarray(np.max(inputs[0], axis=axes, keepdims=bool(options.get("KeepDims", False))))


def _fully_connected(inputs: Sequence[Any], options: Options) -> Array:
    x, weights, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    made = x.reshape(-1, weights.shape[1]) @ weights.T
    return _activated(made if bias is None else made + bias, options)


def _conv_2d(inputs: Sequence[Any], options: Options) -> Array:
    x, weights, bias = inputs[0], inputs[1], inputs[2]
    _, height, width, _ = weights.shape
    if options["StrideH"] != 1 or options["StrideW"] != 1:
        raise NotImplementedError("convolution with a stride")
    down, right = options["DilationHFactor"], options["DilationWFactor"]
    span = ((height - 1) * down, (width - 1) * right)
    if options["Padding"] == _SAME:
        x = np.pad(x, ((0, 0), *((size // 2, size - size // 2) for size in span), (0, 0)))
    rows, columns = x.shape[1] - span[0], x.shape[2] - span[1]
    made = np.zeros((x.shape[0], rows, columns, weights.shape[0]), np.float32)
    for i in range(height):
        for j in range(width):
            made += x[:, i * down : i * down + rows, j * right : j * right + columns] @ weights[:, i, j].T
    return _activated(made + bias, options)


def _transpose_conv(inputs: Sequence[Any], options: Options) -> Array:
    size, weights, x = inputs[0], inputs[1], inputs[2]
    strides = (options["StrideH"], options["StrideW"])
    kernel = weights.shape[1:3]
    full = [(x.shape[axis + 1] - 1) * strides[axis] + kernel[axis] for axis in (0, 1)]
    made = np.zeros((x.shape[0], *full, weights.shape[0]), np.float32)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i, i + (x.shape[1] - 1) * strides[0] + 1, strides[0])
            columns = slice(j, j + (x.shape[2] - 1) * strides[1] + 1, strides[1])
            made[:, rows, columns] += x @ weights[:, i, j].T
    first = [(full[axis] - int(size[axis + 1])) // 2 if options["Padding"] == _SAME else 0 for axis in (0, 1)]
    cropped = made[:, first[0] : first[0] + int(size[1]), first[1] : first[1] + int(size[2])]
    return _activated(cropped if len(inputs) < 4 else cropped + inputs[3], options)


def _batch_matmul(inputs: Sequence[Any], options: Options) -> Array:
    a = np.swapaxes(inputs[0], -1, -2) if options["AdjX"] else inputs[0]
    b = np.swapaxes(inputs[1], -1, -2) if options["AdjY"] else inputs[1]
    return np.asarray(a @ b)


def _softmax(inputs: Sequence[Any], options: Options) -> Array:
    scaled = inputs[0] * np.float32(options["Beta"])
    raised = np.exp(scaled - scaled.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True))


def _strided_slice(inputs: Sequence[Any], options: Options) -> Array:
    x, begin, end, stride = inputs
    if options["EllipsisMask"] or options["NewAxisMask"]:
        raise NotImplementedError("strided slice with an ellipsis or a new axis")
    index: list[int | slice] = []
    for axis in range(len(begin)):
        bit = 1 << axis
        if options["ShrinkAxisMask"] & bit:
            index.append(int(begin[axis]))
            continue
        start = None if options["BeginMask"] & bit else int(begin[axis])
        stop = None if options["EndMask"] & bit else int(end[axis])
        index.append(slice(start, stop, int(stride[axis])))
    return np.asarray(x[tuple(index)])


def _space_to_batch(inputs: Sequence[Any], _options: Options) -> Array:
    x, block, paddings = inputs
    if block.size != 1:
        raise NotImplementedError("space to batch over several axes")
    size = int(block[0])
    padded = np.pad(x, ((0, 0), tuple(int(p) for p in paddings[0]), (0, 0)))
    batch, length, channels = padded.shape
    parts = padded.reshape(batch, length // size, size, channels).transpose(2, 0, 1, 3)
    return np.asarray(parts.reshape(size * batch, length // size, channels))


def _batch_to_space(inputs: Sequence[Any], _options: Options) -> Array:
    x, block, crops = inputs
    if block.size != 1:
        raise NotImplementedError("batch to space over several axes")
    size = int(block[0])
    batch, length, channels = x.shape
    joined = x.reshape(size, batch // size, length, channels).transpose(1, 2, 0, 3)
    joined = joined.reshape(batch // size, length * size, channels)
    return np.asarray(joined[:, int(crops[0][0]) : joined.shape[1] - int(crops[0][1])])


def _squeeze(inputs: Sequence[Any], options: Options) -> Array:
    return np.asarray(np.squeeze(inputs[0], axis=tuple(options["SqueezeDims"]) or None))


def _pack(inputs: Sequence[Any], options: Options) -> Array:
    return np.stack([np.asarray(part) for part in inputs], axis=options["Axis"])


def _expand_dims(inputs: Sequence[Any], _options: Options) -> Array:
    return np.expand_dims(inputs[0], int(np.asarray(inputs[1]).reshape(())))


def _mirror_pad(inputs: Sequence[Any], options: Options) -> Array:
    mode = "reflect" if options["Mode"] == _REFLECT else "symmetric"
    return np.pad(inputs[0], [(int(a), int(b)) for a, b in inputs[1]], mode=mode)  # type: ignore[call-overload,no-any-return]


def _gather(inputs: Sequence[Any], options: Options) -> Array:
    return np.asarray(np.take(inputs[0], inputs[1].astype(np.int64), axis=options["Axis"]))


def _leaky_relu(inputs: Sequence[Any], options: Options) -> Array:
    return np.where(inputs[0] > 0, inputs[0], inputs[0] * np.float32(options["Alpha"]))


KERNELS: dict[str, Kernel] = {
    "ADD": _binary(np.add),
    "BATCH_MATMUL": _batch_matmul,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "CONCATENATION": lambda inputs, options: np.concatenate(inputs, axis=options["Axis"]),
    "CONV_2D": _conv_2d,
    "EXP": _unary(np.exp),
    "EXPAND_DIMS": _expand_dims,
    "FILL": lambda inputs, _options: np.full(tuple(inputs[0]), inputs[1]),
    "FLOOR_MOD": _binary(np.mod),
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _gather,
    "GREATER_EQUAL": _binary(np.greater_equal),
    "IDENTITY": _unary(np.asarray),
    "LEAKY_RELU": _leaky_relu,
    "LESS": _binary(np.less),
    "LOG": _unary(np.log),
    "MAXIMUM": _binary(np.maximum),
    "MEAN": _reduction(np.mean),
    "MIRROR_PAD": _mirror_pad,
    "MUL": _binary(np.multiply),
    "NOT_EQUAL": _binary(np.not_equal),
    "PACK": _pack,
    "PAD": lambda inputs, _options: np.pad(inputs[0], [(int(a), int(b)) for a, b in inputs[1]]),
    "RANGE": lambda inputs, _options: np.arange(*(np.asarray(value).reshape(()) for value in inputs)),
    "REDUCE_MAX": _maximum,
    "REDUCE_PROD": _reduction(np.prod),
    "RESHAPE": lambda inputs, _options: inputs[0].reshape(tuple(int(size) for size in inputs[1])),
    "ROUND": _unary(np.rint),
    "RSQRT": _unary(lambda x: np.asarray(1 / np.sqrt(x), x.dtype)),
    "SHAPE": _unary(lambda x: np.asarray(x.shape, np.int32)),
    "SOFTMAX": _softmax,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SQUARED_DIFFERENCE": _binary(lambda a, b: np.square(a - b)),
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _binary(np.subtract),
    "SUM": _reduction(np.sum),
    "TANH": _unary(np.tanh),
    "TILE": lambda inputs, _options: np.tile(inputs[0], tuple(int(n) for n in inputs[1])),
    "TRANSPOSE": lambda inputs, _options: np.transpose(inputs[0], tuple(int(axis) for axis in inputs[1])),
    "TRANSPOSE_CONV": _transpose_conv,
    "WHERE": lambda inputs, _options: np.argwhere(inputs[0]),
}
"""By operator. ``CAST``, ``QUANTIZE`` and ``DEQUANTIZE`` depend on the tensors' types and are in the interpreter."""
