"""A generator that knows where its sequence ends.

At the true end of a sequence every convolution sees zeros. Padding with zero frames is not the same: after the first
bias the padding is not zero any more, and its sound reaches back over the last frames. So the graph gets an input
``mask``, 1 on true frames and 0 on padding, with which the data of every convolution that looks beyond its own position
is multiplied, at the resolution of that place. Then padding is a true end, to the bit as far as kernels allow. Where
the generator pads by reflection, true positions are mirrored at the true end (:mod:`voxrepo.convert.reflection`), and
the graph takes one row.

Everything is found by what the nodes do; names mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx
from onnx import TensorProto, helper

from voxrepo.convert.graph_parts import GraphParts
from voxrepo.convert.reflection import MIN_OPSET, Reflections, is_reflection
from voxrepo.importers.graph import Graph, attribute, normalise
from voxrepo.importers.receptive_field import receptive_field
from voxrepo_contract.errors import ConversionRefused

MASK = "mask"
_SPATIAL_AXIS = 2
_WAY_OUT = "leave this vocoder on the CPU and convert the voice's acoustic stage only"


def add_mask(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same generator with a further input ``mask`` FP32 [batch, 1, frames]; true frames come first in a row.

    Args:
        model: one input [batch, C, frames] and one output [batch, 1, samples], with convolutions over the last axis,
            transposed convolutions that multiply its length, zeros or reflections around them, and pointwise
            operators. It is not changed.

    Raises:
        ConversionRefused: the graph has something through which padding could reach true frames.
    """
    graph = normalise(model)
    features, audio = _ends(graph, model)
    pads = {node.output[0]: _pad(graph, node) for node in graph.of_type("Pad")}
    receptive_field(graph, features, audio)  # refuses operators whose reach along time is not known
    extents = _extents(graph, pads, features, audio)
    parts = GraphParts(graph, "mask")
    masks, reflections = _Masks(parts), Reflections(parts, MASK, graph.opset)
    nodes: list[onnx.NodeProto] = []
    masked: dict[str, str] = {}

    def behind_mask(tensor: str) -> str:
        if tensor not in masked:
            made, name = masks.at(extents[tensor].scale)
            nodes.extend(made)
            masked[tensor] = parts.name("masked")
            nodes.append(helper.make_node("Mul", [tensor, name], [masked[tensor]], name=masked[tensor]))
        return masked[tensor]

    for original in graph.nodes:
        node = onnx.NodeProto()
        node.CopyFrom(original)
        pad, extent = pads.get(node.output[0]), extents.get(node.input[0]) if node.input else None
        if extent is not None and pad is not None and pad.reflects:
            nodes.extend(reflections.pad(node, extent.scale, pad.before, pad.after))
            continue
        # where a pad went before, it has seen to what lies around
        if extent is not None and not extent.around and (pad is not None or _looks_around(graph, node)):
            node.input[0] = behind_mask(node.input[0])
        nodes.append(node)
    final = parts.name("unmasked")
    for node in nodes:
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                if name == audio:
                    field[index] = final
    made, name = masks.at(extents[audio].scale)
    nodes.extend(made)
    nodes.append(helper.make_node("Mul", [final, name], [audio], name=parts.name("masked")))
    return _rebuilt(model, graph, nodes, parts.constants, features)


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


@dataclass(frozen=True)
class _Pad:
    """What a Pad node puts around the length."""

    before: int
    after: int
    reflects: bool


def _pad(graph: Graph, node: onnx.NodeProto) -> _Pad:
    amounts = graph.constant(node.input[1]) if len(node.input) > 1 else None
    if amounts is None or amounts.shape != (2 * (_SPATIAL_AXIS + 1),) or len(node.input) > 3:
        raise ConversionRefused(
            f"the generator has a Pad node whose amounts are not six constants (operator set {graph.opset}); export it "
            f"with opset_version=15, or {_WAY_OUT}"
        )
    before, after = int(amounts[_SPATIAL_AXIS]), int(amounts[-1])
    if is_reflection(node):
        if graph.opset < MIN_OPSET:
            raise ConversionRefused(
                f"the generator reflects at its ends and uses operator set {graph.opset}; the places to copy from are "
                f"computed with whole numbers, for which {MIN_OPSET} is needed; export it with opset_version=15"
            )
        return _Pad(before, after, True)
    mode = attribute(node, "mode", b"constant").decode()
    filled = len(node.input) > 2 and node.input[2] and graph.scalar(node.input[2]) != 0
    if mode != "constant" or filled:
        how = "a value other than zero" if mode == "constant" else f"the mode {mode!r}"
        raise ConversionRefused(
            f"the generator has a Pad node with {how}, which is not known to end where the sequence does; {_WAY_OUT}"
        )
    return _Pad(before, after, False)


@dataclass(frozen=True)
class _Extent:
    """Length of a tensor: ``frames * scale + around``, of which the last are what pads put around the sequence."""

    scale: int
    around: int = 0


def _behind_conv(graph: Graph, node: onnx.NodeProto, extent: _Extent) -> _Extent:
    """By how much a convolution multiplies the length; it must be exact, or frames would shift against the mask."""
    kernel = int(graph.constants[node.input[1]].dims[_SPATIAL_AXIS])
    stride, dilation = _one(node, "strides", 1), _one(node, "dilations", 1)
    padding = sum(attribute(node, "pads", [0, 0]))
    span = dilation * (kernel - 1)
    if node.op_type == "Conv":
        if extent.around and padding:
            raise ConversionRefused(_PADDED_TWICE.format(node.op_type))
        left = extent.around + padding - span
        if stride != 1 or left < 0 or (left and not extent.around):
            behind = f" behind pads of {extent.around}" if extent.around else ""
            raise ConversionRefused(
                f"the generator has a Conv of kernel {kernel}, dilation {dilation}, stride {stride} and padding "
                f"{padding}{behind}, which changes the length; the mask would not fit behind it"
            )
        return replace(extent, around=left)
    if extent.around:
        raise ConversionRefused(_PADDED_TWICE.format(node.op_type))
    extra = span + 1 + _one(node, "output_padding", 0) - padding
    if extra != stride:
        raise ConversionRefused(
            f"the generator has a ConvTranspose of kernel {kernel}, stride {stride} and padding {padding}, whose "
            f"output is not {stride} times as long as its input; the mask would not fit behind it"
        )
    return _Extent(extent.scale * stride)


_PADDED_TWICE = (
    "the generator has a {} behind a Pad node that it should have followed up with a convolution without padding; "
    "where the sequence ends inside is not known, " + _WAY_OUT
)


def _extents(graph: Graph, pads: dict[str, _Pad], features: str, audio: str) -> dict[str, _Extent]:
    """Length of every tensor computed from ``features``."""
    extents = {features: _Extent(1)}
    for node in graph.nodes:
        inputs = [name for name in node.input if name in extents]
        if not inputs:
            continue
        found = {extents[name] for name in inputs}
        if len(found) > 1:
            raise ConversionRefused(f"the generator joins tensors of different resolution in a {node.op_type} node")
        extent = found.pop()
        pad = pads.get(node.output[0])
        if pad is not None:
            if extent.around:
                raise ConversionRefused(_PADDED_TWICE.format(node.op_type))
            extent = replace(extent, around=pad.before + pad.after)
        elif node.op_type in {"Conv", "ConvTranspose"}:
            extent = _behind_conv(graph, node, extent)
        else:
            _check_constants(graph, node)
        extents.update(dict.fromkeys((name for name in node.output if name), extent))
    if audio not in extents:
        raise ConversionRefused("the generator's output does not depend on its input")
    if extents[audio].around:
        raise ConversionRefused("the generator's output is longer than its frames; the mask would not fit it")
    return extents


def _check_constants(graph: Graph, node: onnx.NodeProto) -> None:
    for name in node.input:
        constant = graph.constants.get(name)
        if constant is not None and len(constant.dims) > 0 and constant.dims[-1] != 1 and node.op_type != "Clip":
            raise ConversionRefused(
                f"the generator has a {node.op_type} node with a constant that varies along time "
                f"({list(constant.dims)}); its length would be baked in"
            )


class _Masks:
    """The mask at every resolution that is needed, each made once by repeating every frame."""

    def __init__(self, parts: GraphParts) -> None:
        self._parts = parts
        self._made = {1: MASK}

    def at(self, scale: int) -> tuple[list[onnx.NodeProto], str]:
        """Nodes to add, if it was not there before, and the name of the mask [batch, 1, frames * scale]."""
        if scale in self._made:
            return [], self._made[scale]
        column, repeated, flat = (self._parts.name(stem) for stem in ("column", "repeated", f"x{scale}"))
        constant = self._parts.constant
        nodes = [
            helper.make_node("Reshape", [MASK, constant([0, 1, -1, 1])], [column], name=column),
            helper.make_node("Tile", [column, constant([1, 1, 1, scale])], [repeated], name=repeated),
            helper.make_node("Reshape", [repeated, constant([0, 1, -1])], [flat], name=flat),
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
