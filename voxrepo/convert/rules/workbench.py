"""A graph that is being rewritten: what is known of its tensors, and new nodes with names that are free."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, shape_inference

from voxrepo.importers.graph import attribute, opset_of

Dims = tuple[int | None, ...]

_LARGE_ELEMENTS = 4096
"""Constants above this are left out of shape inference: no shape depends on their values."""


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Graphs inside a node."""
    return [graph for entry in node.attribute for graph in ([entry.g] if entry.HasField("g") else entry.graphs)]


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Every tensor that a node or a graph inside it reads, maybe also names of that graph's own tensors."""
    yield from node.input
    for body in bodies_of(node):
        yield from (value.name for value in body.output)
        for inner in body.node:
            yield from names_read(inner)


class Workbench:
    """A copy of a model under rewriting.

    Attributes:
        model: the copy.
        nodes: its nodes in a topological order.
        constants: initialisers and values of ``Constant`` nodes, by name.
        opset: version of the default operator set.
        shapes: dims by tensor, as far as they follow from the graph.
        elem_types: ONNX element types by tensor.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        graph = self.model.graph
        graph.ClearField("value_info")
        self.constants: dict[str, onnx.TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        self.nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            value = attribute(node, "value") if node.op_type == "Constant" else None
            if isinstance(value, onnx.TensorProto) and node.output[0] not in self.output_names():
                self.constants[node.output[0]] = value
            else:
                self.nodes.append(node)
        self.opset = opset_of(model)
        self.shapes: dict[str, Dims] = {}
        self.elem_types: dict[str, int] = {}
        self._taken = {name for node in self.nodes for name in (node.name, *node.output, *names_read(node))}
        self._taken |= {*self.constants, *(value.name for value in graph.input)}
        self._name_nodes()

    def _name_nodes(self) -> None:
        """Every node gets a name of its own: reports, keep lists and ATC's messages speak of nodes by name."""
        seen: set[str] = set()
        for number, node in enumerate(self.nodes):
            if not node.name or node.name in seen:
                node.name = self.fresh(f"{node.op_type}_{number}")
            seen.add(node.name)

    def fresh(self, stem: str) -> str:
        """A name that is not taken, and is now."""
        name, number = stem, 0
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        return name

    def input_names(self) -> list[str]:
        """Inputs that a caller gives."""
        return [value.name for value in self.model.graph.input if value.name not in self.constants]

    def output_names(self) -> set[str]:
        """Outputs of the graph."""
        return {value.name for value in self.model.graph.output}

    def infer(self) -> None:
        """Find shapes and element types again, after nodes changed. What contradicts itself stays unknown."""
        light = onnx.ModelProto()
        light.CopyFrom(self._shell())
        listed = {value.name for value in light.graph.input}
        for name, tensor in self.constants.items():
            if math.prod(tensor.dims) <= _LARGE_ELEMENTS:
                light.graph.initializer.add().CopyFrom(tensor)
                light.graph.initializer[-1].name = name
            elif name not in listed:
                light.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))
        for number, node in enumerate(self.nodes):
            if not self._is_misjudged(node):
                light.graph.node.append(node)
                continue
            # the type passes, the shape does not
            unknown = f"{node.name}/unknown_shape_{number}"
            light.graph.input.append(helper.make_tensor_value_info(unknown, onnx.TensorProto.INT64, [None]))
            light.graph.node.append(helper.make_node("Reshape", [node.input[0], unknown], node.output))
        try:
            light = shape_inference.infer_shapes(light, data_prop=True)
        except Exception:  # a custom operator or a wrong declaration; rules that need shapes then do not apply
            light.graph.ClearField("value_info")
        self.shapes, self.elem_types = {}, {}
        for value in (*light.graph.input, *light.graph.value_info, *light.graph.output):
            if not value.type.HasField("tensor_type"):
                continue
            kind = value.type.tensor_type
            self.elem_types[value.name] = kind.elem_type
            if kind.HasField("shape"):
                self.shapes[value.name] = tuple(
                    d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim
                )
        for name, tensor in self.constants.items():
            self.shapes[name], self.elem_types[name] = tuple(tensor.dims), tensor.data_type

    def _is_misjudged(self, node: onnx.NodeProto) -> bool:
        """Whether ``onnx.shape_inference`` may find a wrong shape.

        It does for Slice with negative steps whose bounds lie outside of the axis, and for ConvTranspose with both
        automatic and output padding. The rules take most such nodes away; what is left has no known shape.
        """
        if node.op_type == "Slice":
            steps = self.value(self.input(node, 4))
            return steps is not None and bool((steps < 0).any())
        automatic = attribute(node, "auto_pad", b"NOTSET") != b"NOTSET"
        return node.op_type == "ConvTranspose" and automatic and any(attribute(node, "output_padding") or ())

    def _shell(self) -> onnx.ModelProto:
        """The model without nodes and constants."""
        shell = onnx.ModelProto()
        shell.ir_version = max(self.model.ir_version, 4)
        shell.opset_import.extend(self.model.opset_import)
        shell.functions.extend(self.model.functions)
        shell.graph.name = self.model.graph.name
        shell.graph.input.extend(self.model.graph.input)
        for value in self.model.graph.output:
            # runtimes only warn of a wrong declaration, so that no constant may follow from it
            shell.graph.output.append(value)
            if value.type.HasField("tensor_type"):
                shell.graph.output[-1].type.tensor_type.ClearField("shape")
        return shell

    def value(self, name: str) -> npt.NDArray[Any] | None:
        """The value of a constant, ``None`` if the tensor is computed or the name is empty."""
        tensor = self.constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def input(self, node: onnx.NodeProto, index: int) -> str:
        """Name of an input, empty where it is not given."""
        return node.input[index] if index < len(node.input) else ""

    def dims(self, name: str) -> Dims | None:
        """Dims of a tensor, ``None`` where even their number is unknown."""
        return self.shapes.get(name)

    def static_dims(self, name: str) -> tuple[int, ...] | None:
        """Dims of a tensor if all are known."""
        dims = self.shapes.get(name)
        if dims is None or any(dim is None for dim in dims):
            return None
        return tuple(dim for dim in dims if dim is not None)

    def dtype(self, name: str) -> np.dtype[Any] | None:
        """NumPy type of a tensor's elements."""
        kind = self.elem_types.get(name)
        return np.dtype(helper.tensor_dtype_to_np_dtype(kind)) if kind else None

    def is_float(self, name: str) -> bool:
        """Whether a tensor holds FP16, FP32 or FP64."""
        dtype = self.dtype(name)
        return dtype is not None and dtype.kind == "f"

    def used(self) -> set[str]:
        """Every tensor that a node reads or the graph gives."""
        return {name for node in self.nodes for name in names_read(node)} | self.output_names()

    def only_first_output(self, node: onnx.NodeProto) -> bool:
        """Whether nothing reads the further outputs of a node."""
        used = self.used() if len(node.output) > 1 else set()
        return not any(name and name in used for name in node.output[1:])

    def prune(self) -> int:
        """Drop nodes that nothing reads; how many there were."""
        before = len(self.nodes)
        needed = self.output_names()
        kept: list[onnx.NodeProto] = []
        for node in reversed(self.nodes):
            if any(name in needed for name in node.output):
                needed.update(name for name in names_read(node) if name)
                kept.append(node)
        self.nodes = kept[::-1]
        return before - len(kept)

    def finished(self) -> onnx.ModelProto:
        """The rewritten model, with the constants that are used."""
        used = self.used()
        graph = self.model.graph
        nodes = [helper_copy(node) for node in self.nodes]
        constants = []
        for name, tensor in self.constants.items():
            if name in used:
                copy = onnx.TensorProto()
                copy.CopyFrom(tensor)
                copy.name = name
                constants.append(copy)
        inputs = [value for value in graph.input if value.name not in self.constants]
        made = helper.make_graph(nodes, graph.name, inputs, list(graph.output), initializer=constants)
        self.model.graph.CopyFrom(made)
        return self.model


def helper_copy(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node of its own."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


class Builder:
    """Builds the nodes that stand for one node, each named after it so that its module path stays readable."""

    def __init__(self, bench: Workbench, rule: str, node: onnx.NodeProto) -> None:
        self._bench = bench
        self._stem = f"{node.name}/{rule}"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.aliases: dict[str, str] = {}
        """Outputs of the replaced node that are just another tensor."""

    def const(self, value: Any, dtype: Any) -> str:
        """Name of a new constant."""
        name = self._bench.fresh(f"{self._stem}/constant")
        self.constants[name] = numpy_helper.from_array(np.array(value, dtype, order="C"), name)
        return name

    def ints(self, values: Sequence[int]) -> str:
        """Name of a new INT64 vector."""
        return self.const(list(values), np.int64)

    def op(self, op_type: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A new node of one output; its name, fresh unless given."""
        name = self._bench.fresh(f"{self._stem}/{op_type}")
        made = output or name
        self.nodes.append(helper.make_node(op_type, list(inputs), [made], name=name, **attributes))
        return made

    def reduce(self, op_type: str, tensor: str, axes: Sequence[int], *, keepdims: int = 1, output: str = "") -> str:
        """A ReduceMean or ReduceSum, whose axes moved from an attribute to an input at different opsets."""
        first = 13 if op_type == "ReduceSum" else 18
        if self._bench.opset >= first:
            return self.op(op_type, [tensor, self.ints(axes)], output, keepdims=keepdims)
        return self.op(op_type, [tensor], output, axes=list(axes), keepdims=keepdims)

    def unsqueeze(self, tensor: str, axes: Sequence[int], output: str = "") -> str:
        """An Unsqueeze."""
        if self._bench.opset >= 13:
            return self.op("Unsqueeze", [tensor, self.ints(axes)], output)
        return self.op("Unsqueeze", [tensor], output, axes=list(axes))

    def reshape(self, tensor: str, dims: Sequence[int], output: str = "") -> str:
        """A Reshape; 0 copies a size of the input, -1 is what is left."""
        return self.op("Reshape", [tensor, self.ints(dims)], output)

    def gather(self, tensor: str, indices: Sequence[int], axis: int, output: str = "") -> str:
        """A Gather along an axis, with INT32 indices, which every chip takes."""
        return self.op("Gather", [tensor, self.const(list(indices), np.int32)], output, axis=axis)
