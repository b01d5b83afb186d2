"""Cutting pieces out of a graph, with canonical names.

Tensors and nodes of a piece are named by operator and position, and the order of its nodes follows from its
dataflow. So a piece depends on what the source computes and not on the names in its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from voxrepo.importers.graph import Graph

Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Port:
    """An input or output of a piece.

    Attributes:
        tensor: its name in the source graph.
        name: its name in the piece.
        elem_type: ONNX element type.
        shape: sizes, or names of axes that vary.
    """

    tensor: str
    name: str
    elem_type: int
    shape: Shape


@dataclass(frozen=True)
class Piece:
    """A graph and its ports, in the order of the file."""

    model: onnx.ModelProto
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def _ordered(graph: Graph, outputs: Sequence[str], stop: frozenset[str]) -> list[onnx.NodeProto]:
    """Nodes that ``outputs`` need, each after its producers, in an order given by the dataflow alone."""
    order: list[onnx.NodeProto] = []
    done: set[int] = set()
    stack: list[tuple[str, bool]] = [(name, False) for name in reversed(outputs)]
    while stack:
        name, expanded = stack.pop()
        node = None if name in stop else graph.producer.get(name)
        if node is None or id(node) in done:
            continue
        if expanded:
            done.add(id(node))
            order.append(node)
            continue
        stack.append((name, True))
        stack.extend((i, False) for i in reversed(node.input) if i)
    return order


def extract(graph: Graph, inputs: Sequence[Port], outputs: Sequence[Port], name: str) -> onnx.ModelProto:
    """The part of ``graph`` between ``inputs`` and ``outputs`` as a model of its own.

    The caller has checked that ``inputs`` close the piece; a graph input that is not among them is a programming
    error and raises ``ValueError``.
    """
    stop = frozenset(port.tensor for port in inputs)
    nodes = _ordered(graph, [port.tensor for port in outputs], stop)
    names = {port.tensor: port.name for port in inputs}
    names.update({port.tensor: port.name for port in outputs})
    counts: Counter[str] = Counter()
    weights: list[TensorProto] = []
    renamed_nodes: list[onnx.NodeProto] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.ClearField("doc_string")
        copy.ClearField("metadata_props")
        copy.name = f"{node.op_type}_{counts[node.op_type]}"
        counts[node.op_type] += 1
        for index, tensor in enumerate(node.input):
            if not tensor:
                continue
            if tensor not in names:
                constant = graph.constants.get(tensor)
                if constant is None:
                    raise ValueError(f"the piece {name!r} is not closed: it reads {tensor!r}")
                weight = TensorProto()
                weight.CopyFrom(constant)
                weight.name = f"weight_{len(weights)}"
                weight.ClearField("doc_string")
                names[tensor] = weight.name
                weights.append(weight)
            copy.input[index] = names[tensor]
        for index, tensor in enumerate(node.output):
            if tensor:
                names.setdefault(tensor, copy.name if index == 0 else f"{copy.name}_{index}")
                copy.output[index] = names[tensor]
        renamed_nodes.append(copy)
    piece = helper.make_graph(
        renamed_nodes,
        name,
        [helper.make_tensor_value_info(p.name, p.elem_type, list(p.shape)) for p in inputs],
        [helper.make_tensor_value_info(p.name, p.elem_type, list(p.shape)) for p in outputs],
        initializer=weights,
    )
    model = helper.make_model(piece, opset_imports=[helper.make_opsetid("", graph.opset)])
    model.ir_version = graph.ir_version
    model.producer_name = "voxrepo"
    model.producer_version = ""
    return model
