"""Half precision, as a CPU can show it.

Two forms. ``rounded`` computes in FP32 and rounds every result to FP16 and back, which is what a device does that
multiplies halves and adds them up in FP32: infinities and lost small numbers appear where they would there. A graph of
FP16 tensors would not show them: onnxruntime has no such kernels for a CPU, computes chains of nodes in FP32 and
rounds where they end, so that 60 000 + 60 000 - 60 000 is right there and infinite on the device; and some versions do
not load such graphs at all, after fusing layer normalisations. ``stored`` computes as the source, from weights in
FP16: a CPU gains nothing from more.

Weights are FP16 in both files; inputs and outputs of the graph stay FP32.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.onnx_graph import elem_types
from voxrepo.convert.precision.nodes import plain
from voxrepo.importers.graph import ONNX_DOMAINS, opset_of
from voxrepo_contract.errors import ConversionRefused

Form = Literal["rounded", "stored"]

MAX_HALF = 65504.0
"""Largest finite FP16 number."""
SMALLEST_HALF = 2.0**-24
"""Smallest FP16 number above zero."""

MOVES = frozenset(
    {"Abs", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Max",
     "MaxPool", "Min", "Neg", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "ScatterElements", "ScatterND",
     "Sign", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Where"}
)  # fmt: skip
"""Operators whose results are among their inputs, up to the sign: nothing is left to round."""
_DRAWS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_QUANTISED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"})


@dataclass(frozen=True)
class HalfGraph:
    """A graph in half precision.

    Attributes:
        model: the graph.
        kept: nodes that stay in FP32 whatever the quality, with the reason.
    """

    model: onnx.ModelProto
    kept: dict[str, str]


def to_half(model: onnx.ModelProto, keep: Collection[str] = (), *, form: Form) -> HalfGraph:
    """Lower a graph; it is not changed itself.

    Args:
        model: FP32.
        keep: names of nodes that stay FP32; see :func:`voxrepo.convert.precision.nodes.plain` for nodes without one.
        form: see above.

    Raises:
        ConversionRefused: the graph has control flow, quantised operators, or tensors of unknown type.
    """
    return _Lowering(plain(model), frozenset(keep), form).result()


def lowerable(model: onnx.ModelProto) -> list[str]:
    """Names of the nodes that compute in FP32 and can do so in FP16, in the graph's order."""
    lowering = _Lowering(plain(model), frozenset(), "rounded")
    return [node.name for node in lowering.model.graph.node if lowering.computes(node) and not lowering.reason(node)]


class _Lowering:
    def __init__(self, model: onnx.ModelProto, keep: frozenset[str], form: Form) -> None:
        self.model = model
        self._keep = keep
        self._rounds = form == "rounded"
        self._opset = opset_of(model)
        self._types = elem_types(model)
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._taken = set(self._types) | {name for node in model.graph.node for name in (*node.input, *node.output)}
        self._nodes: list[onnx.NodeProto] = []
        self._rounded: dict[str, str] = {}
        """By tensor, the one that holds it after rounding; itself if it is made so."""
        self._halves: list[TensorProto] = []
        for node in model.graph.node:
            if node.op_type in _QUANTISED:
                raise ConversionRefused(
                    f"the graph is quantised already (node {node.name!r} is {node.op_type}); convert from the float "
                    "graph"
                )
            for name in node.output:
                if name and name not in self._types:
                    raise ConversionRefused(
                        f"the element type of {name!r} (node {node.name!r}, {node.op_type}) does not follow from the "
                        "graph, so it cannot be lowered; export it again with shape inference, or convert at fp32"
                    )

    def computes(self, node: onnx.NodeProto) -> bool:
        """Whether a node reads or makes FP32."""
        return any(self._is_float(name) for name in (*node.input, *node.output))

    def reason(self, node: onnx.NodeProto) -> str:
        """Why a node cannot be lowered, empty if it can."""
        if node.domain not in ONNX_DOMAINS:
            return "it is not an operator of ONNX"
        if node.op_type in _DRAWS:
            return "it draws random numbers, which are to be those of the source"
        for name in node.input:
            if name in self._constants and self._is_float(name):
                value = np.abs(numpy_helper.to_array(self._constants[name]))
                if value.size and value.max() > MAX_HALF:
                    return f"its constant {value.max():.3g} is beyond {MAX_HALF:.0f}, where half precision ends"
                if value.size and 0 < value.max() < SMALLEST_HALF:
                    return f"its constant {value.max():.3g} is zero in half precision"
        if not self._takes_half(node):
            return f"{node.op_type} has no half precision form in operator set {self._opset}"
        return ""

    def _takes_half(self, node: onnx.NodeProto) -> bool:
        sides = (("inputs", node.input), ("outputs", node.output))
        return all(
            self._allows_half(node, side, index) or (side == "inputs" and self._alone(node, index))
            for side, names in sides
            for index, name in enumerate(names)
            if self._is_float(name)
        )

    def _allows_half(self, node: onnx.NodeProto, side: str, index: int) -> bool:
        allowed, _ = self._constraint(node, side, index)
        return "tensor(float16)" in allowed

    def _alone(self, node: onnx.NodeProto, index: int) -> bool:
        """Whether an input has a type of its own, so that it can stay FP32 beside halves (the scales of Resize)."""
        _, shared = self._constraint(node, "inputs", index)
        return not shared

    def _constraint(self, node: onnx.NodeProto, side: str, index: int) -> tuple[Collection[str], str]:
        schema = onnx.defs.get_schema(node.op_type, self._opset, "")
        formals = getattr(schema, side)
        formal = formals[min(index, len(formals) - 1)]
        for entry in schema.type_constraints:
            if entry.type_param_str == formal.type_str:
                return entry.allowed_type_strs, entry.type_param_str
        return (formal.type_str,), ""

    def _is_float(self, name: str) -> bool:
        return bool(name) and self._types.get(name) == TensorProto.FLOAT

    def result(self) -> HalfGraph:
        kept: dict[str, str] = {}
        for node in self.model.graph.node:
            reason = self.reason(node) if self.computes(node) else ""
            if reason:
                kept[node.name] = reason
            if self.computes(node) and not reason and node.name not in self._keep:
                self._lower(node)
            else:
                self._nodes.append(node)
        graph = self.model.graph
        del graph.node[:]
        graph.node.extend(self._nodes)
        del graph.value_info[:]
        used = {name for node in self._nodes for name in node.input} | {value.name for value in graph.output}
        constants = [*graph.initializer, *self._halves]
        del graph.initializer[:]
        graph.initializer.extend(tensor for tensor in constants if tensor.name in used)
        return HalfGraph(self.model, kept)

    def _lower(self, node: onnx.NodeProto) -> None:
        for index, name in enumerate(node.input):
            if self._is_float(name) and self._allows_half(node, "inputs", index):
                node.input[index] = self._after_rounding(name)
        self._nodes.append(node)
        if not self._rounds:
            return
        for index, name in enumerate(node.output):
            if self._is_float(name):
                self._rounded[name] = name
                if node.op_type not in MOVES:
                    node.output[index] = self._fresh(f"{name}_exact")
                    self._round(node.output[index], name)

    def _after_rounding(self, name: str) -> str:
        if name not in self._rounded:
            if name in self._constants:
                half = self._fresh(f"{name}_half")
                with np.errstate(over="ignore"):
                    value = numpy_helper.to_array(self._constants[name]).astype(np.float16)
                self._halves.append(numpy_helper.from_array(value, half))
                self._rounded[name] = self._fresh(f"{name}_rounded")
                self._cast(half, self._rounded[name], TensorProto.FLOAT)
            elif self._rounds:
                self._rounded[name] = self._fresh(f"{name}_rounded")
                self._round(name, self._rounded[name])
            else:
                return name
        return self._rounded[name]

    def _round(self, source: str, target: str) -> None:
        half = self._fresh(f"{target}_half")
        self._cast(source, half, TensorProto.FLOAT16)
        self._cast(half, target, TensorProto.FLOAT)

    def _cast(self, source: str, target: str, to: int) -> None:
        self._nodes.append(helper.make_node("Cast", [source], [target], name=self._fresh(f"{target}_cast"), to=to))

    def _fresh(self, stem: str) -> str:
        name = stem
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def clamp_masks(model: onnx.ModelProto, limit: float = 60_000.0) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Bring constants like -1e9, which stand for "not this one" before a softmax, into the range of half precision.

    As minus infinity they would make a row that is masked as a whole not-a-number. Whether the graph computes the same
    with them is for the caller to try.

    Returns:
        A copy, and the names of the constants that were changed.
    """
    copy = plain(model)
    changed: list[str] = []
    for tensor in copy.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        value = numpy_helper.to_array(tensor)
        if value.size and (value < -MAX_HALF).any() and not (value > MAX_HALF).any():
            changed.append(tensor.name)
            tensor.CopyFrom(numpy_helper.from_array(np.maximum(value, np.float32(-limit)), tensor.name))
    return copy, tuple(changed)
