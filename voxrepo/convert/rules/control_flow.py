"""Branches that are decided and loops of a known number of rounds, written out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from voxrepo.convert.rules.workbench import Builder, Workbench, bodies_of, helper_copy
from voxrepo.importers.graph import attribute

MAX_ROUNDS = 64
MAX_NODES = 20_000
"""A loop that would grow beyond this stays one: the compiler would need hours."""


def constant_if(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """The branch that a constant condition takes."""
    condition = bench.value(node.input[0])
    if condition is None or condition.size != 1:
        return None
    taken = bool(condition.reshape(()))
    body = attribute(node, "then_branch" if taken else "else_branch")
    results = _inline(bench, build, body, {})
    _give(build, results, list(node.output))
    return f"its condition is always {str(taken).lower()}; that branch is written out"


def constant_loop(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """A loop of a constant number of rounds that never ends early, round by round."""
    trips = bench.value(bench.input(node, 0)) if bench.input(node, 0) else None
    condition = bench.value(bench.input(node, 1)) if bench.input(node, 1) else np.array(True)
    body: onnx.GraphProto = attribute(node, "body")
    if trips is None or condition is None or not bool(condition.reshape(())):
        return None
    rounds = int(trips.reshape(()))
    carried = len(node.input) - 2
    if not 0 < rounds <= MAX_ROUNDS or rounds * len(body.node) > MAX_NODES or not _never_ends(bench, body):
        return None
    state = list(node.input[2:])
    collected: list[list[str]] = [[] for _ in body.output[1 + carried :]]
    true = build.const(True, bool)
    for number in range(rounds):
        given = [build.const(number, np.int64), true, *state]
        renamed = dict(zip((value.name for value in body.input), given, strict=True))
        results = _inline(bench, build, body, renamed)
        state = results[1 : 1 + carried]
        for rows, name in zip(collected, results[1 + carried :], strict=True):
            rows.append(build.unsqueeze(name, [0]))
    stacked = [build.op("Concat", rows, axis=0) for rows in collected]
    _give(build, [*state, *stacked], list(node.output))
    return f"its {rounds} rounds are written out"


def _never_ends(bench: Workbench, body: onnx.GraphProto) -> bool:
    """Whether the body's condition is constantly true, or handed through."""
    name = body.output[0].name
    for node in body.node:
        if name in node.output:
            if node.op_type == "Identity":
                name_in = node.input[0]
                return name_in == body.input[1].name or _is_true(bench, body, name_in)
            return _is_true(bench, body, name)
    return name == body.input[1].name or _is_true(bench, body, name)


def _is_true(bench: Workbench, body: onnx.GraphProto, name: str) -> bool:
    value = bench.value(name)
    for tensor in body.initializer:
        if tensor.name == name:
            value = onnx.numpy_helper.to_array(tensor)
    for node in body.node:
        if node.op_type == "Constant" and name in node.output:
            tensor = attribute(node, "value")
            value = None if tensor is None else onnx.numpy_helper.to_array(tensor)
    return value is not None and bool(value.reshape(-1)[0])


def _inline(bench: Workbench, build: Builder, body: onnx.GraphProto, renamed: Mapping[str, str]) -> list[str]:
    """Copy a body into the graph around it; names of what its outputs became."""
    names = dict(renamed)
    for tensor in body.initializer:
        name = bench.fresh(tensor.name)
        copy = onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.name = name
        build.constants[name] = copy
        names[tensor.name] = name
    for original in body.node:
        node = helper_copy(original)
        _rename(node, names)
        node.name = bench.fresh(original.name or original.op_type)
        for index, name in enumerate(original.output):
            if name:
                node.output[index] = names[name] = bench.fresh(name)
        value = attribute(node, "value") if node.op_type == "Constant" else None
        if isinstance(value, onnx.TensorProto):
            build.constants[node.output[0]] = value
        else:
            build.nodes.append(node)
    return [names.get(value.name, value.name) for value in body.output]


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for index, name in enumerate(node.input):
        node.input[index] = names.get(name, name)
    for inner in bodies_of(node):
        own = {name for member in inner.node for name in member.output} | {value.name for value in inner.input}
        visible = {name: new for name, new in names.items() if name not in own}
        for value in inner.output:
            value.name = visible.get(value.name, value.name)
        for member in inner.node:
            _rename(member, visible)


def _give(build: Builder, results: list[str], outputs: list[str]) -> None:
    for result, output in zip(results, outputs, strict=True):
        if output:
            build.op("Identity", [result], output)
