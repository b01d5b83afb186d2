"""Lifting attention and what is looked up in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from voxrepo.importers.tflite.model import Operator
from voxrepo.importers.tflite.writer import Value

if TYPE_CHECKING:
    from voxrepo.importers.tflite.lift import Lifter


def transpose(lifter: Lifter, operator: Operator) -> Value:
    """Split a sequence into attention heads, or join them."""
    order = lifter.observed.constant(operator.inputs[1])
    source = lifter.values[operator.inputs[0]]
    shape = lifter.observed.first[operator.inputs[0]].shape
    if order is None or list(order) != [0, 2, 1, 3]:
        raise lifter.refused(operator.output, "is transposed in another way than attention heads are")
    if source.kind == "sequence":
        split = lifter.constant([0, shape[2], shape[3], -1], np.int64)
        return Value(lifter.node("Reshape", [source.name, split]), "heads", source.channels)
    joined = lifter.constant([0, source.channels, -1], np.int64)
    return Value(lifter.node("Reshape", [source.name, joined]), "sequence", source.channels)


def batch_matmul(lifter: Lifter, operator: Operator) -> Value:
    """Queries by keys, or scores by values."""
    a, b = (lifter.values[number] for number in operator.inputs)
    if operator.options["AdjX"] or b.kind != "heads" or a.kind == "sequence":
        raise lifter.refused(operator.output, "is a product that attention does not have")
    if a.kind == "heads" and operator.options["AdjY"]:
        queries = lifter.node("Transpose", [a.name], perm=[0, 1, 3, 2])
        return Value(lifter.node("MatMul", [queries, b.name]), "scores")
    if a.kind == "scores" and not operator.options["AdjY"]:
        values = lifter.node("Transpose", [b.name], perm=[0, 1, 3, 2])
        mixed = lifter.node("MatMul", [a.name, values])
        return Value(lifter.node("Transpose", [mixed], perm=[0, 1, 3, 2]), "heads", b.channels)
    raise lifter.refused(operator.output, "is a product that attention does not have")


def softmax(lifter: Lifter, operator: Operator) -> Value:
    """Scores to weights."""
    source = lifter.values[operator.inputs[0]]
    if source.kind != "scores" or float(operator.options["Beta"]) != 1:
        raise lifter.refused(operator.output, "is a softmax over something else than attention scores")
    return Value(lifter.node("Softmax", [source.name], axis=-1), "scores")


def gather(lifter: Lifter, operator: Operator) -> Value:
    """Look up ids in a table of embeddings, or positions in a table that is cut to the length."""
    table = lifter.model.real(operator.inputs[0])
    if table is None:
        table = lifter.observed.constant(operator.inputs[0])
    if table is None or table.ndim != 2:
        raise lifter.refused(operator.output, "looks something up that is not a table")
    if lifter.ids is not None and operator.inputs[1] == lifter.ids[0]:
        found = lifter.node("Gather", [lifter.constant(table), lifter.ids[1]], axis=0)
        return Value(lifter.node("Transpose", [found], perm=[0, 2, 1]), "sequence", table.shape[1])
    start = lifter.observed.counts_from(operator.inputs[1])
    if start is None or lifter.length_of is None:
        raise lifter.refused(operator.output, "looks up something else than ids and positions")
    rows = lifter.extended(table)[start:]
    name, axis = lifter.length_of
    shape = lifter.node("Shape", [name])
    length = lifter.node("Gather", [shape, lifter.constant([axis], np.int64)], axis=0)
    zero, axes = lifter.constant([0], np.int64), lifter.constant([2], np.int64)
    cut = lifter.node("Slice", [lifter.constant(rows.T[np.newaxis]), zero, length, axes])
    return Value(cut, "sequence", table.shape[1])
