"""Reflection at the true end of a sequence that is shorter than its tensor.

A generator that pads by reflection mirrors its data at the last position. Inside a gear that is the end of the padding,
not that of the sequence. Here the pad becomes a Gather whose indices follow from the true length: of ``before``
positions ahead of ``length`` true ones and ``after`` behind them, position j (counted from the first true one) is a
copy of |j|, or of 2 (length - 1) - |j| where that is less, as beyond the end. All shapes follow from that of the mask,
only the values of the indices from what stands in it.

One list of indices serves all rows of a tensor, so rows of different lengths cannot share a call: such a graph takes
one row. What lies beyond ``length + before + after`` is a copy of true positions too, and means nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from voxrepo.convert.graph_parts import GraphParts
from voxrepo.convert.onnx_graph import read_onnx
from voxrepo.importers.graph import attribute

MIN_OPSET = 12
"""First operator set whose Min and Max take whole numbers."""
_AXES_ARE_INPUTS = 13
_FRAMES_AXIS = 2


def is_reflection(node: onnx.NodeProto) -> bool:
    """Whether a node pads by reflection."""
    return node.op_type == "Pad" and attribute(node, "mode", b"constant") == b"reflect"


def reflects(model: onnx.ModelProto) -> bool:
    """Whether a graph pads by reflection somewhere, so that with a mask it takes one row at a time."""
    return any(is_reflection(node) for node in model.graph.node)


def takes_one_row(file: Path) -> bool:
    """The same of a graph in a file.

    Raises:
        ConfigError: it cannot be read.
        AtcRefusal: it is not a sound graph.
    """
    return reflects(read_onnx(file))


class Reflections:
    """Indices for every kind of reflection that is needed, each made once.

    They are INT32, which devices have units for, and never lowered: half precision counts to 2 048.

    Args:
        parts: for names and constants.
        mask: name of the tensor FP32 [1, 1, frames], 1 on true frames, which come first, and 0 after them.
        opset: of the graph, at least ``MIN_OPSET``.
    """

    def __init__(self, parts: GraphParts, mask: str, opset: int) -> None:
        self._parts = parts
        self._mask = mask
        self._opset = opset
        self._frames: tuple[str, str] | None = None
        self._turns: dict[int, str] = {}
        self._indices: dict[tuple[int, int, int], str] = {}
        self._nodes: list[onnx.NodeProto] = []

    def pad(self, node: onnx.NodeProto, scale: int, before: int, after: int) -> list[onnx.NodeProto]:
        """Nodes to put in the place of a Pad.

        Args:
            node: the Pad; its input has the shape [1, channels, frames * scale].
            scale: positions per frame.
            before: positions that it puts ahead.
            after: positions that it puts behind.
        """
        index = self._index(scale, before, after)
        made, self._nodes = self._nodes, []
        return [*made, helper.make_node("Gather", [node.input[0], index], node.output, name=node.name, axis=2)]

    def _op(self, op_type: str, inputs: list[str], stem: str, **attributes: Any) -> str:
        name = self._parts.name(stem)
        self._nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def _ints(self, value: int | list[int]) -> str:
        return self._parts.constant(value, np.int32)

    def _lengths(self) -> tuple[str, str]:
        """Frames of the tensor, a scalar, and true frames, [1]; both INT32."""
        if self._frames is None:
            shape = self._op("Shape", [self._mask], "shape")
            size = self._op("Gather", [shape, self._parts.constant(_FRAMES_AXIS)], "size", axis=0)
            size = self._op("Cast", [size], "frames", to=TensorProto.INT32)
            whole = self._op("Cast", [self._mask], "whole", to=TensorProto.INT32)
            summed = self._parts.name("summed")
            axes = [1, _FRAMES_AXIS]
            self._nodes.append(
                helper.make_node("ReduceSum", [whole, self._parts.constant(axes)], [summed], name=summed, keepdims=0)
                if self._opset >= _AXES_ARE_INPUTS
                else helper.make_node("ReduceSum", [whole], [summed], name=summed, keepdims=0, axes=axes)
            )
            # of several rows there would be several sums, which do not have this shape
            self._frames = size, self._op("Reshape", [summed, self._parts.constant([1])], "length")
        return self._frames

    def _turn(self, scale: int) -> str:
        """2 (length - 1), [1]: where a position and its mirror image at the end add up to."""
        if scale not in self._turns:
            doubled = self._op("Mul", [self._lengths()[1], self._ints([2 * scale])], "doubled")
            self._turns[scale] = self._op("Sub", [doubled, self._ints([2])], "turn")
        return self._turns[scale]

    def _index(self, scale: int, before: int, after: int) -> str:
        key = scale, before, after
        if key not in self._indices:
            limit = self._op("Mul", [self._lengths()[0], self._ints(scale)], "scaled")
            limit = self._op("Add", [limit, self._ints(after)], "limit")
            positions = self._op("Range", [self._ints(-before), limit, self._ints(1)], "positions")
            inside = self._op("Abs", [positions], "distance")
            beyond = self._op("Sub", [self._turn(scale), inside], "mirrored")
            nearest = self._op("Min", [inside, beyond], "nearest")
            # far beyond the end, and in an empty row, the mirror image would lie before the first position
            self._indices[key] = self._op("Max", [nearest, self._ints([0])], "index")
        return self._indices[key]
