"""Lowering the version of the operator set where nothing in the graph needs the newer one."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import defs

from voxrepo.convert.onnx_graph import operator_list
from voxrepo.convert.rules.rule import AppliedRule
from voxrepo.convert.rules.workbench import Workbench, bodies_of
from voxrepo.importers.graph import ONNX_DOMAINS, attribute

LOWER = "lower_opset"

_SAME = frozenset(
    {
        "Cast", "CastLike", "Constant", "ConstantOfShape", "Equal", "Flatten", "Identity", "If", "Loop", "Pad",
        "ReduceMax", "ReduceMin", "Reshape", "Scan", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators whose versions after 18 only added element types, or options checked below."""


def lower_opset(bench: Workbench) -> list[AppliedRule]:
    """Declare the newest operator set that ATC reads, if every operator means the same there.

    An operator means the same if its definition is from that version or before. Cast of floats of eight bits, and Pad
    that wraps around, are new in 19 and keep the graph where it is.
    """
    newest = operator_list().opset_max
    types = bench.elem_types
    if bench.opset <= newest or not all(means_the_same(node, bench.opset, newest, types) for node in bench.nodes):
        return []
    old = bench.opset
    for entry in bench.model.opset_import:
        if entry.domain in ONNX_DOMAINS:
            entry.version = newest
    bench.opset = newest
    note = f"operator set {old} lowered to {newest}, where every operator of this graph means the same"
    return [AppliedRule(LOWER, bench.nodes[0].name if bench.nodes else "", note)]


def means_the_same(node: onnx.NodeProto, opset: int, newest: int, types: Mapping[str, int]) -> bool:
    """Whether an operator of set ``opset`` is defined alike in the older set ``newest``.

    Args:
        node: the operator.
        opset: version of the operator set that it is of.
        newest: older version.
        types: ONNX element types by tensor, as far as known.
    """
    if node.domain not in ONNX_DOMAINS:
        return False
    for body in bodies_of(node):
        if not all(means_the_same(inner, opset, newest, types) for inner in body.node):
            return False
    if opset > defs.onnx_opset_version():
        return False  # a set from the future, in which anything may mean something else
    try:
        since = defs.get_schema(node.op_type, max_inclusive_version=opset).since_version
    except defs.SchemaError:
        return False
    if since <= newest:
        return True
    if node.op_type not in _SAME or not _takes(node, newest, types):
        return False
    if node.op_type == "Pad":
        return bool(attribute(node, "mode", b"constant") != b"wrap")
    if node.op_type in {"Cast", "CastLike"}:
        return bool(attribute(node, "to", 1) <= onnx.TensorProto.BFLOAT16)
    return True


def _takes(node: onnx.NodeProto, opset: int, types: Mapping[str, int]) -> bool:
    """Whether an operator of the set takes and gives tensors of these types, as far as they are known."""
    schema = defs.get_schema(node.op_type, max_inclusive_version=opset)
    for names, formal in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for index, name in enumerate(names):
            elem_type = types.get(name, 0)
            if not elem_type or not formal:
                continue
            allowed = formal[min(index, len(formal) - 1)].types  # the last one may stand for several
            if f"tensor({onnx.TensorProto.DataType.Name(elem_type).lower()})" not in allowed:
                return False
    return True
