"""How far a frame is heard: the generator's receptive field, computed from its graph.

An interval of output samples is propagated upwards through every node to the interval of input frames that it is
computed from. The overlap that makes windows exact is how far that interval reaches beyond the frame itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx

from voxrepo.importers.graph import Graph, attribute
from voxrepo_contract.errors import ConversionRefused

_POINTWISE = frozenset(
    [
        "Abs",
        "Add",
        "Cast",
        "Clip",
        "Cos",
        "Div",
        "Elu",
        "Exp",
        "LeakyRelu",
        "Log",
        "Mul",
        "Neg",
        "Pow",
        "Relu",
        "Reciprocal",
        "Sigmoid",
        "Sin",
        "Softplus",
        "Sqrt",
        "Sub",
        "Tanh",
    ]
)

Interval = tuple[int, int]


@dataclass(frozen=True)
class ReceptiveField:
    """What the windowed program must know about a generator.

    Attributes:
        hop_length_samples: samples per frame, the product of the upsampling strides.
        left_frames: frames before a frame that its samples depend on.
        right_frames: frames after it.
    """

    hop_length_samples: int
    left_frames: int
    right_frames: int

    @property
    def overlap_frames(self) -> int:
        """Frames to compute and discard on each side of a window, so that its middle is exact."""
        return max(self.left_frames, self.right_frames)


def _one(node: onnx.NodeProto, name: str, default: int) -> int:
    value: Any = attribute(node, name)
    if value is None:
        return default
    if len(value) != 1:
        raise ConversionRefused(f"the generator has a {node.op_type} over {len(value)} axes; one is supported")
    return int(value[0])


def _geometry(graph: Graph, node: onnx.NodeProto) -> tuple[int, int, int, int]:
    """(kernel size, dilation, stride, padding before) of a one-dimensional convolution."""
    weight = graph.constants.get(node.input[1])
    if weight is None or len(weight.dims) != 3:
        raise ConversionRefused(f"the generator has a {node.op_type} that is not one-dimensional with fixed weights")
    if attribute(node, "auto_pad", b"NOTSET") != b"NOTSET" or attribute(node, "output_shape"):
        raise ConversionRefused(f"the generator has a {node.op_type} with automatic padding, which is not supported")
    pads = attribute(node, "pads", [0, 0])
    return int(weight.dims[2]), _one(node, "dilations", 1), _one(node, "strides", 1), int(pads[0])


def _time_padding(graph: Graph, node: onnx.NodeProto) -> int:
    """Positions that a ``Pad`` puts before the length."""
    amounts = graph.constant(node.input[1])
    if amounts is None or amounts.shape != (6,) or amounts[[0, 1, 3, 4]].any() or amounts.min() < 0:
        raise ConversionRefused("the generator has a Pad node of something else than the length")
    return int(amounts[2])


def _above(graph: Graph, node: onnx.NodeProto, interval: Interval) -> Interval:
    """The interval of a node's inputs that ``interval`` of its output is computed from."""
    low, high = interval
    if node.op_type in _POINTWISE:
        return interval
    if node.op_type == "Conv":
        kernel, dilation, stride, pad = _geometry(graph, node)
        return low * stride - pad, high * stride - pad + (kernel - 1) * dilation
    if node.op_type == "ConvTranspose":
        # output o takes input i through tap j where o = i * stride - pad + j * dilation, 0 <= j < kernel
        kernel, dilation, stride, pad = _geometry(graph, node)
        return -((-(low + pad - (kernel - 1) * dilation)) // stride), (high + pad) // stride
    if node.op_type == "Pad":
        # reflected or zero, what is put around the ends lies at the true ends of a sequence and stays there
        before = _time_padding(graph, node)
        return low - before, high - before
    raise ConversionRefused(
        f"the generator has a {node.op_type} node, whose reach along time is not known; windows could not be exact"
    )


def receptive_field(graph: Graph, features: str, waveform: str) -> ReceptiveField:
    """Receptive field of the part of ``graph`` between ``features`` [batch, C, frames] and ``waveform``.

    Raises:
        ConversionRefused: a node's reach along time is not known.
    """
    region = graph.ancestors([waveform], stop=[features])
    nodes = [n for n in graph.nodes if n.output and n.output[0] in region and n.output[0] != features]
    hop = 1
    for node in nodes:
        if node.op_type == "ConvTranspose":
            hop *= _geometry(graph, node)[2]
    reach: dict[str, Interval] = {waveform: (0, hop - 1)}
    # nodes stand in topological order: going backwards, all readers of a tensor come before its producer
    for node in reversed(nodes):
        interval = reach.get(node.output[0])
        if interval is None:
            continue
        low, high = _above(graph, node, interval)
        for name in node.input:
            if name in region:
                known = reach.get(name, (low, high))
                reach[name] = (min(known[0], low), max(known[1], high))
    low, high = reach[features]
    return ReceptiveField(hop_length_samples=hop, left_frames=-low, right_frames=high)
