"""A generator that knows where its sequence ends.

At the true end of a sequence every convolution sees zeros. Padding with zero frames is not the same: after the first
bias the padding is not zero any more, and its sound reaches back over the last frames. So the graph gets an input
``mask``, 1 on true frames and 0 on padding, with which the data of every convolution that looks beyond its own position
is multiplied, at the resolution of that place. Then padding is a true end, to the bit as far as kernels allow.

Everything is found by what the nodes do; names mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo.importers.graph import Graph, attribute, normalise
from voxrepo.importers.receptive_field import receptive_field
from voxrepo_contract.errors import ConversionRefused

MASK = "mask"
_SPATIAL_AXIS = 2


def add_mask(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same generator with a further input ``mask`` FP32 [batch, 1, frames].

    Args:
        model: one input [batch, C, frames] and one output [batch, 1, samples], with convolutions over the last axis,
            transposed convolutions that multiply its length, and pointwise operators. It is not changed.

    Raises:
        ConversionRefused: the graph has something through which padding could reach true frames.
    """
    graph = normalise(model)
    features, audio = _ends(graph, model)
    if graph.of_type("Pad"):
        raise ConversionRefused(
            "the generator puts reflections around its ends, which a mask cannot place inside a gear; leave this "
            "vocoder on the CPU and convert the voice's acoustic stage only"
        )
    receptive_field(graph, features, audio)  # refuses operators whose reach along time is not known
    scales = _scales(graph, features, audio)
    names = _Names(graph)
    masks = _Masks(names)
    nodes: list[onnx.NodeProto] = []
    masked: dict[str, str] = {}

    def behind_mask(tensor: str) -> str:
        if tensor not in masked:
            made, name = masks.at(scales[tensor])
            nodes.extend(made)
            masked[tensor] = names.new("masked")
            nodes.append(helper.make_node("Mul", [tensor, name], [masked[tensor]], name=masked[tensor]))
        return masked[tensor]

    for original in graph.nodes:
        node = onnx.NodeProto()
        node.CopyFrom(original)
        if _looks_around(graph, node):
            node.input[0] = behind_mask(node.input[0])
        nodes.append(node)
    final = names.new("unmasked")
    for node in nodes:
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                if name == audio:
                    field[index] = final
    made, name = masks.at(scales[audio])
    nodes.extend(made)
    nodes.append(helper.make_node("Mul", [final, name], [audio], name=names.new("masked")))
    return _rebuilt(model, graph, nodes, masks.constants, features)


def _ends(graph: Graph, model: onnx.ModelProto) -> tuple[str, str]:
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise ConversionRefused(
            f"the generator has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs; one of each is expected"
        )
    if MASK in {graph.inputs[0].name, graph.outputs[0], *graph.constants, *graph.producer}:
        raise ConversionRefused(f"the generator has a tensor named {MASK!r} already; it was converted before")
    rank = len(model.graph.input[0].type.tensor_type.shape.dim)
    if rank != _SPATIAL_AXIS + 1:
        raise ConversionRefused(f"the generator's input has {rank} axes; [batch, channels, frames] is expected")
    return graph.inputs[0].name, graph.outputs[0]


def _looks_around(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a node's output depends on neighbours in time."""
    if node.op_type == "ConvTranspose":
        return True
    return node.op_type == "Conv" and graph.constants[node.input[1]].dims[_SPATIAL_AXIS] > 1


def _one(node: onnx.NodeProto, name: str, default: int) -> int:
    value = attribute(node, name)
    return default if value is None else int(value[0])


def _factor(graph: Graph, node: onnx.NodeProto) -> int:
    """By how much a convolution multiplies the length; it must be exact, or frames would shift against the mask."""
    kernel = int(graph.constants[node.input[1]].dims[_SPATIAL_AXIS])
    stride, dilation = _one(node, "strides", 1), _one(node, "dilations", 1)
    padding = sum(attribute(node, "pads", [0, 0]))
    span = dilation * (kernel - 1)
    if node.op_type == "Conv":
        if stride != 1 or span != padding:
            raise ConversionRefused(
                f"the generator has a Conv of kernel {kernel}, dilation {dilation}, stride {stride} and padding "
                f"{padding}, which changes the length; the mask would not fit behind it"
            )
        return 1
    extra = span + 1 + _one(node, "output_padding", 0) - padding
    if extra != stride:
        raise ConversionRefused(
            f"the generator has a ConvTranspose of kernel {kernel}, stride {stride} and padding {padding}, whose "
            f"output is not {stride} times as long as its input; the mask would not fit behind it"
        )
    return stride


def _scales(graph: Graph, features: str, audio: str) -> dict[str, int]:
    """Positions per frame of every tensor computed from ``features``."""
    scales = {features: 1}
    for node in graph.nodes:
        inputs = [name for name in node.input if name in scales]
        if not inputs:
            continue
        found = {scales[name] for name in inputs}
        if len(found) > 1:
            raise ConversionRefused(f"the generator joins tensors of different resolution in a {node.op_type} node")
        scale = found.pop()
        if node.op_type in {"Conv", "ConvTranspose"}:
            scale *= _factor(graph, node)
        else:
            _check_constants(graph, node)
        scales.update(dict.fromkeys((name for name in node.output if name), scale))
    if audio not in scales:
        raise ConversionRefused("the generator's output does not depend on its input")
    return scales


def _check_constants(graph: Graph, node: onnx.NodeProto) -> None:
    for name in node.input:
        constant = graph.constants.get(name)
        if constant is not None and len(constant.dims) > 0 and constant.dims[-1] != 1 and node.op_type != "Clip":
            raise ConversionRefused(
                f"the generator has a {node.op_type} node with a constant that varies along time "
                f"({list(constant.dims)}); its length would be baked in"
            )


class _Names:
    """Names that are not taken."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._fresh: dict[str, Iterator[str]] = {}

    def new(self, stem: str) -> str:
        if stem not in self._fresh:
            self._fresh[stem] = self._graph.fresh_names(f"mask_{stem}")
        return next(self._fresh[stem])


class _Masks:
    """The mask at every resolution that is needed, each made once by repeating every frame."""

    def __init__(self, names: _Names) -> None:
        self._names = names
        self._made = {1: MASK}
        self.constants: list[TensorProto] = []

    def _constant(self, values: list[int]) -> str:
        name = self._names.new("constant")
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def at(self, scale: int) -> tuple[list[onnx.NodeProto], str]:
        """Nodes to add, if it was not there before, and the name of the mask [batch, 1, frames * scale]."""
        if scale in self._made:
            return [], self._made[scale]
        column, repeated, flat = (self._names.new(stem) for stem in ("column", "repeated", f"x{scale}"))
        nodes = [
            helper.make_node("Reshape", [MASK, self._constant([0, 1, -1, 1])], [column], name=column),
            helper.make_node("Tile", [column, self._constant([1, 1, 1, scale])], [repeated], name=repeated),
            helper.make_node("Reshape", [repeated, self._constant([0, 1, -1])], [flat], name=flat),
        ]
        self._made[scale] = flat
        return nodes, flat


def _rebuilt(
    model: onnx.ModelProto, graph: Graph, nodes: list[onnx.NodeProto], constants: list[TensorProto], features: str
) -> onnx.ModelProto:
    batch, _, frames = model.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_param or dim.dim_value for dim in (batch, frames)]
    mask = helper.make_tensor_value_info(MASK, TensorProto.FLOAT, [shape[0], 1, shape[1]])
    used = {name for node in nodes for name in node.input}
    weights = []
    for name, tensor in graph.constants.items():
        if name in used:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = name
            weights.append(copy)
    rebuilt = onnx.ModelProto()
    rebuilt.CopyFrom(model)
    inputs = [value for value in model.graph.input if value.name == features]
    rebuilt.graph.CopyFrom(
        helper.make_graph(
            nodes, model.graph.name, [*inputs, mask], list(model.graph.output), initializer=[*weights, *constants]
        )
    )
    onnx.checker.check_model(rebuilt)
    return rebuilt
