"""Nodes of a graph by name: every one has one, and what a user names must be there."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, numpy_helper

from voxrepo.importers.graph import CONTROL_FLOW, ONNX_DOMAINS
from voxrepo_contract.errors import ConversionRefused, InvalidArgument

_SHOWN = 5


def plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every node has a name of its own and constants are initialisers.

    Raises:
        ConversionRefused: the graph has control flow; which values flow there is not known before it runs.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    kept: list[onnx.NodeProto] = []
    taken = {node.name for node in graph.node}
    seen: set[str] = set()
    for index, node in enumerate(graph.node):
        if node.op_type in CONTROL_FLOW:
            raise ConversionRefused(
                f"the graph has the operator {node.op_type} (node {node.name or node.output[0]!r}), whose branches "
                "cannot be lowered; simplify the graph, or convert at fp32"
            )
        if node.op_type == "Constant" and node.domain in ONNX_DOMAINS:
            value = _constant(node)
            if value is not None:
                graph.initializer.append(value)
                continue
        if not node.name or node.name in seen:
            stem = f"{node.op_type}_n{index}"
            while stem in taken:
                stem += "_"
            node.name = stem
            taken.add(stem)
        seen.add(node.name)
        kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    return copy


def _constant(node: onnx.NodeProto) -> TensorProto | None:
    for entry in node.attribute:
        value = onnx.helper.get_attribute_value(entry)
        tensor: TensorProto | None = None
        if entry.name == "value":
            tensor = TensorProto()
            tensor.CopyFrom(value)
        elif entry.name in {"value_float", "value_floats"}:
            kind = TensorProto.FLOAT
            tensor = onnx.helper.make_tensor("", kind, [len(value)] if entry.name.endswith("s") else [], _list(value))
        elif entry.name in {"value_int", "value_ints"}:
            kind = TensorProto.INT64
            tensor = onnx.helper.make_tensor("", kind, [len(value)] if entry.name.endswith("s") else [], _list(value))
        if tensor is not None:
            tensor.name = node.output[0]
            return tensor
    return None


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) else [value]


def largest(tensor: TensorProto) -> float:
    """Largest magnitude in a tensor, 0 of an empty one."""
    value = numpy_helper.to_array(tensor)
    return float(abs(value).max()) if value.size else 0.0


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def check_names(given: Sequence[str], graphs: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Which graph of a stage each named node belongs to.

    Args:
        given: ``NODE``, or ``graph:NODE`` where several graphs have a node of that name.
        graphs: names of the nodes by graph.

    Raises:
        InvalidArgument: there is no such node, or several; the text has names that are near.
    """
    found: dict[str, list[str]] = {graph: [] for graph in graphs}
    for text in given:
        graph, colon, node = text.partition(":")
        if colon and graph in graphs:
            owners = [graph] if node in graphs[graph] else []
        else:
            node = text
            owners = [name for name, nodes in graphs.items() if text in nodes]
        if not owners:
            near_graphs = [graph] if colon and graph in graphs else list(graphs)
            known = [f"{name}:{entry}" if len(graphs) > 1 else entry for name in near_graphs for entry in graphs[name]]
            near = sorted(known, key=lambda entry: (-_likeness(node, entry.rpartition(":")[2]), entry))[:_SHOWN]
            near = [entry for entry in near if _likeness(node, entry.rpartition(":")[2]) >= 0.5]
            hint = f"near it are {', '.join(near)}" if near else f"there are {', '.join(known[:_SHOWN])} and others"
            raise InvalidArgument(f"--exclude {text!r}: no layer of that name can be lowered; {hint}")
        if len(owners) > 1:
            raise InvalidArgument(
                f"--exclude {text!r} is in {' and '.join(owners)}; write {' or '.join(f'{o}:{text}' for o in owners)}"
            )
        found[owners[0]].append(node)
    return found
