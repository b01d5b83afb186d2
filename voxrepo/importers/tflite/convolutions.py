"""Lifting dense layers, convolutions and padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voxrepo.importers.tflite.model import Operator
from voxrepo.importers.tflite.writer import Value

if TYPE_CHECKING:
    from voxrepo.importers.tflite.lift import Lifter

_SAME_PADDING = 0
_REFLECT = 0


def dense(lifter: Lifter, operator: Operator) -> Value:
    """A layer over the channels of each position."""
    source = lifter.sequence(operator.inputs[0])
    weights = lifter.weights(operator.inputs[1])
    if weights.shape[1] != source.channels:
        raise lifter.refused(operator.output, f"takes {weights.shape[1]} channels of {source.channels}")
    inputs = [source.name, lifter.constant(weights[:, :, np.newaxis])]
    if len(operator.inputs) > 2 and operator.inputs[2] >= 0:
        inputs.append(lifter.constant(lifter.weights(operator.inputs[2])))
    made = lifter.node("Conv", inputs, kernel_shape=[1])
    return Value(lifter.activated(operator, made), "sequence", weights.shape[0])


def conv(lifter: Lifter, operator: Operator) -> Value:
    """A convolution over the length."""
    source = lifter.sequence(operator.inputs[0])
    return _convolved(lifter, operator, source, dilation=int(operator.options["DilationWFactor"]))


def dilated(lifter: Lifter, operator: Operator) -> Value:
    """A convolution with a dilation, which the files express by a detour through the batch axis."""
    start, conv = detour(lifter, operator)
    block = lifter.observed.constant(start.inputs[1])
    if block is None or block.size != 1 or conv.options["Padding"] == _SAME_PADDING:
        raise lifter.refused(operator.output, "is a detour through the batch axis that is no dilated convolution")
    return _convolved(lifter, conv, lifter.sequence(start.inputs[0]), dilation=int(block.item()))


def _convolved(lifter: Lifter, operator: Operator, source: Value, dilation: int) -> Value:
    weights = lifter.weights(operator.inputs[1])
    if weights.shape[1] != 1 or weights.shape[3] != source.channels:
        raise lifter.refused(operator.output, f"is a convolution with weights {list(weights.shape)}")
    if operator.options["StrideW"] != 1 or operator.options["StrideH"] != 1:
        raise lifter.refused(operator.output, "is a convolution with a stride")
    kernel = weights.shape[2]
    span = dilation * (kernel - 1)
    pads = [span // 2, span - span // 2] if operator.options["Padding"] == _SAME_PADDING else [0, 0]
    name = lifter.behind_mask(source.name) if kernel > 1 else source.name
    made = lifter.node(
        "Conv",
        [
            name,
            lifter.constant(np.transpose(weights[:, 0], (0, 2, 1))),
            lifter.constant(lifter.weights(operator.inputs[2])),
        ],
        kernel_shape=[kernel],
        dilations=[dilation],
        pads=pads,
    )
    return Value(lifter.activated(operator, made), "sequence", weights.shape[0])


def pad(lifter: Lifter, operator: Operator) -> Value:
    """Reflections or zeros around a sequence."""
    source = lifter.sequence(operator.inputs[0])
    if operator.options.get("Mode", _REFLECT) != _REFLECT:
        raise lifter.refused(operator.output, "is padded symmetrically; reflection is supported")
    amounts = lifter.observed.constant(operator.inputs[1])
    if amounts is None or amounts.shape != (3, 2) or amounts[[0, 2]].any():
        raise lifter.refused(operator.output, "pads something else than the length")
    spread = lifter.constant([0, 0, amounts[1][0], 0, 0, amounts[1][1]], np.int64)
    mode = "reflect" if operator.kind == "MIRROR_PAD" else "constant"
    return Value(lifter.node("Pad", [source.name, spread], mode=mode), "sequence", source.channels)


def detour(lifter: Lifter, operator: Operator) -> tuple[Operator, Operator]:
    """The ``SPACE_TO_BATCH_ND`` and the convolution that belong to a ``BATCH_TO_SPACE_ND``."""
    found: dict[str, Operator] = {}
    step = lifter.producers.get(operator.inputs[0])
    while step is not None and step.kind in {"SQUEEZE", "EXPAND_DIMS", "CONV_2D", "SPACE_TO_BATCH_ND"}:
        found.setdefault(step.kind, step)
        if step.kind == "SPACE_TO_BATCH_ND":
            break
        step = lifter.producers.get(step.inputs[0])
    start, conv = found.get("SPACE_TO_BATCH_ND"), found.get("CONV_2D")
    if start is None or conv is None or start.inputs[1:] != operator.inputs[1:]:
        raise lifter.refused(operator.output, "is a detour through the batch axis that is no dilated convolution")
    return start, conv


def transpose_conv(lifter: Lifter, operator: Operator) -> Value:
    """A transposed convolution that makes a sequence as many times as long as its stride."""
    source = lifter.sequence(operator.inputs[2])
    weights = lifter.weights(operator.inputs[1])
    strides = (int(operator.options["StrideH"]), int(operator.options["StrideW"]))
    flat = 2 if weights.shape[2] == 1 else 1
    kernel = np.squeeze(weights, axis=flat)
    stride = strides[1 if flat == 1 else 0]
    extra = kernel.shape[1] - stride
    if weights.shape[flat] != 1 or kernel.shape[2] != source.channels or extra < 0 or len(operator.inputs) > 3:
        raise lifter.refused(operator.output, f"is a transposed convolution with weights {list(weights.shape)}")
    if operator.options["Padding"] != _SAME_PADDING:
        raise lifter.refused(operator.output, "is a transposed convolution without padding")
    made = lifter.node(
        "ConvTranspose",
        [lifter.behind_mask(source.name), lifter.constant(np.transpose(kernel, (2, 0, 1)))],
        kernel_shape=[kernel.shape[1]],
        strides=[stride],
        pads=[extra // 2, extra - extra // 2],
    )
    return Value(lifter.activated(operator, made), "sequence", kernel.shape[0])
