"""Structural search over an ONNX graph.

:class:`Graph` is a graph without names that mean anything: ``Constant`` nodes are folded into one table of constants,
``Identity`` nodes are removed, and everything else is found by operator types and by who feeds whom.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from voxrepo_contract.errors import ConversionRefused

ONNX_DOMAINS = frozenset({"", "ai.onnx"})
"""Names of the default operator set."""
CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
RANDOM = ("RandomNormalLike",)
"""How an export draws noise; any other random operator is refused as unknown when shapes are checked."""


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the default operator set, 0 if the model names none."""
    return next((entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS), 0)


@dataclass
class Graph:
    """A normalised ONNX graph.

    Attributes:
        nodes: computing nodes in a topological order.
        constants: initialisers and folded ``Constant`` nodes by tensor name.
        inputs: graph inputs that are not constants.
        outputs: names of the output tensors.
        opset: version of the default operator set.
        ir_version: of the file.
    """

    nodes: list[onnx.NodeProto]
    constants: dict[str, onnx.TensorProto]
    inputs: list[onnx.ValueInfoProto]
    outputs: list[str]
    opset: int
    ir_version: int
    producer: dict[str, onnx.NodeProto] = field(init=False, default_factory=dict)
    consumers: dict[str, list[onnx.NodeProto]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.reindex()

    def reindex(self) -> None:
        """Rebuild the producer and consumer tables after ``nodes`` changed."""
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        self.consumers = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                if name:
                    self.consumers.setdefault(name, []).append(node)

    def copy(self) -> Graph:
        """A graph whose nodes and table of constants can be changed without changing this one."""
        nodes: list[onnx.NodeProto] = []
        for node in self.nodes:
            duplicate = onnx.NodeProto()
            duplicate.CopyFrom(node)
            nodes.append(duplicate)
        return Graph(nodes, dict(self.constants), self.inputs, self.outputs, self.opset, self.ir_version)

    def made_by(self, tensor: str, *op_types: str) -> onnx.NodeProto | None:
        """The node that produces ``tensor`` if it is of one of ``op_types``."""
        node = self.producer.get(tensor)
        return node if node is not None and node.op_type in op_types else None

    def used_by(self, tensor: str, *op_types: str) -> list[onnx.NodeProto]:
        """The nodes of ``op_types`` that read ``tensor``."""
        return [node for node in self.consumers.get(tensor, []) if node.op_type in op_types]

    def of_type(self, *op_types: str) -> list[onnx.NodeProto]:
        """All nodes of ``op_types`` in order."""
        return [node for node in self.nodes if node.op_type in op_types]

    def constant(self, tensor: str) -> npt.NDArray[Any] | None:
        """The value of a constant tensor, ``None`` if it is computed."""
        proto = self.constants.get(tensor)
        return None if proto is None else numpy_helper.to_array(proto)

    def scalar(self, tensor: str) -> float | None:
        """The value of a constant of one element, ``None`` otherwise."""
        value = self.constant(tensor)
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def scalar_operand(self, node: onnx.NodeProto) -> tuple[str, float] | None:
        """For a binary node with one scalar constant: the other operand and the scalar."""
        if len(node.input) != 2:
            return None
        for index in (1, 0):
            value = self.scalar(node.input[index])
            if value is not None:
                return node.input[1 - index], value
        return None

    def ancestors(self, tensors: Iterable[str], *, stop: Iterable[str] = ()) -> set[str]:
        """All non-constant tensors that ``tensors`` are computed from, themselves included.

        The search does not go above the tensors in ``stop``, which are included where they are met.
        """
        stops = frozenset(stop)
        seen: set[str] = set()
        stack = [name for name in tensors if name]
        while stack:
            name = stack.pop()
            if name in seen or name in self.constants:
                continue
            seen.add(name)
            node = self.producer.get(name)
            if node is not None and name not in stops:
                stack.extend(i for i in node.input if i)
        return seen

    def descendants(self, tensor: str) -> set[str]:
        """All tensors computed from ``tensor``, itself included."""
        seen: set[str] = set()
        stack = [tensor]
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            for node in self.consumers.get(name, []):
                stack.extend(o for o in node.output if o)
        return seen

    def input_names(self) -> list[str]:
        """Names of the graph inputs."""
        return [value.name for value in self.inputs]

    def up(self, tensor: str, op_types: Sequence[str]) -> str:
        """Follow the first input upwards as long as the producer is of one of ``op_types``."""
        while (node := self.made_by(tensor, *op_types)) is not None:
            tensor = node.input[0]
        return tensor

    def fresh_names(self, stem: str) -> Iterator[str]:
        """Tensor names that do not occur in the graph yet."""
        taken = {*self.producer, *self.constants, *self.input_names()}
        number = 0
        while True:
            name = f"{stem}_{number}"
            number += 1
            if name not in taken:
                yield name


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute, ``default`` where it is not given."""
    for entry in node.attribute:
        if entry.name == name:
            return onnx.helper.get_attribute_value(entry)
    return default


def _constant_of(node: onnx.NodeProto) -> onnx.TensorProto:
    for entry in node.attribute:
        value = onnx.helper.get_attribute_value(entry)
        if entry.name == "value":
            return value  # type: ignore[no-any-return]
        if entry.name in {"value_int", "value_ints"}:
            return numpy_helper.from_array(np.asarray(value, dtype=np.int64))
        if entry.name in {"value_float", "value_floats"}:
            return numpy_helper.from_array(np.asarray(value, dtype=np.float32))
    raise ConversionRefused("the graph holds a Constant node of a kind that is not supported (sparse or string)")


def normalise(model: onnx.ModelProto) -> Graph:
    """Fold constants and remove ``Identity`` nodes; the model is not changed.

    Raises:
        ConversionRefused: for control flow, functions or operators outside the default operator set.
    """
    opset = opset_of(model)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    renamed: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    for original in model.graph.node:
        if original.domain not in ONNX_DOMAINS or original.op_type in CONTROL_FLOW:
            domain = f"{original.domain}." if original.domain else ""
            raise ConversionRefused(
                f"the graph uses the operator {domain}{original.op_type}, which a Piper export does not have; "
                "export the voice again with Piper's own exporter"
            )
        if original.op_type == "Constant":
            constants[original.output[0]] = _constant_of(original)
            continue
        if original.op_type == "Identity":
            renamed[original.output[0]] = renamed.get(original.input[0], original.input[0])
            continue
        node = onnx.NodeProto()
        node.CopyFrom(original)
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
        nodes.append(node)
    return Graph(
        nodes=nodes,
        constants=constants,
        inputs=[value for value in model.graph.input if value.name not in constants],
        outputs=[renamed.get(value.name, value.name) for value in model.graph.output],
        opset=opset,
        ir_version=model.ir_version,
    )
