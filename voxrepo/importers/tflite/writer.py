"""Writing an ONNX graph node by node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo.importers.graph import Graph

Array = npt.NDArray[Any]

OPSET = 15
"""As Piper's exporter writes, so that all voices are alike for a device's compiler."""
IR_VERSION = 8


@dataclass(frozen=True)
class Value:
    """A tensor of the lifted graph.

    Attributes:
        name: in that graph.
        kind: ``sequence`` [batch, channels, length], ``heads`` [batch, heads, channels, length] or ``scores`` [batch,
            heads, length, length].
        channels: of a sequence.
    """

    name: str
    kind: Literal["sequence", "heads", "scores"]
    channels: int = 0


class Writer:
    """Collects nodes and constants, which get names as they come."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def node(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node of one output, whose name is returned."""
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        """Add a constant, whose name is returned."""
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.array(value, dtype, order="C"), name)
        return name

    def graph(self, inputs: list[onnx.ValueInfoProto], outputs: list[str]) -> Graph:
        """What has been lifted, biases folded into their convolutions."""
        graph = Graph(list(self.nodes), dict(self.constants), inputs, outputs, OPSET, IR_VERSION)
        _fold_biases(graph)
        return graph


def _fold_biases(graph: Graph) -> None:
    """Make ``Conv`` followed by adding one number per channel a ``Conv`` with that bias."""
    renamed: dict[str, str] = {}
    folded: set[str] = set()
    kept: list[onnx.NodeProto] = []
    for node in graph.nodes:
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
        conv, bias = next(_bias_of(graph, node), (None, None))
        if conv is None or bias is None or conv.name in folded:
            kept.append(node)
            continue
        old = graph.constant(conv.input[2]) if len(conv.input) > 2 else None
        name = f"bias_of_{conv.name}"
        total = bias.reshape(-1) if old is None else bias.reshape(-1) + old
        graph.constants[name] = numpy_helper.from_array(total.astype(np.float32), name)
        folded.add(conv.name)
        del conv.input[2:]
        conv.input.append(name)
        renamed[node.output[0]] = conv.output[0]
    graph.nodes = kept
    graph.outputs = [renamed.get(name, name) for name in graph.outputs]
    graph.reindex()


def _bias_of(graph: Graph, node: onnx.NodeProto) -> Iterator[tuple[onnx.NodeProto, Array]]:
    """For an ``Add`` of a convolution read nowhere else and a constant per channel: both."""
    if node.op_type != "Add":
        return
    for data, other in (tuple(node.input), tuple(reversed(node.input))):
        conv, constant = graph.made_by(data, "Conv", "ConvTranspose"), graph.constant(other)
        if conv is None or constant is None or len(graph.consumers.get(data, [])) != 1 or data in graph.outputs:
            continue
        weight = graph.constants[conv.input[1]]
        filters = weight.dims[0 if conv.op_type == "Conv" else 1]
        if constant.shape == (1, filters, 1) or (filters == 1 and constant.size == 1):
            yield conv, constant
