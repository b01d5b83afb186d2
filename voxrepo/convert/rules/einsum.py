"""Einsum of one or two tensors as Transpose, ReduceSum and MatMul."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx

from voxrepo.convert.rules.workbench import Builder, Dims, Workbench
from voxrepo.importers.graph import attribute


def einsum(bench: Workbench, node: onnx.NodeProto, build: Builder) -> str | None:
    """Replace an Einsum whose operands have each label once and no ellipsis."""
    equation = attribute(node, "equation", b"").decode().replace(" ", "")
    terms, arrow, output = equation.partition("->")
    operands = terms.split(",")
    if not arrow or "." in equation or len(operands) != len(node.input) or len(operands) > 2:
        return None
    if any(len(set(term)) != len(term) for term in (*operands, output)):
        return None  # a diagonal
    shapes = [bench.dims(name) for name in node.input]
    if any(dims is None or len(dims) != len(term) for dims, term in zip(shapes, operands, strict=True)):
        return None
    sizes: dict[str, int | None] = {}
    for dims, term in zip(shapes, operands, strict=True):
        for label, dim in zip(term, dims or (), strict=True):
            if label in sizes and (sizes[label] == 1) != (dim == 1):
                return None  # broadcasting inside Einsum
            sizes[label] = sizes.get(label) or dim
    if len(operands) == 1:
        _single(node, build, operands[0], output)
        return f"{equation}, as ReduceSum and Transpose"
    plan = _Product.of(operands[0], operands[1], output)
    if not plan.can_merge(sizes):
        return None
    _multiply(node, build, operands, plan, sizes, output)
    return f"{equation}, as Transpose and MatMul"


class _Product:
    """Labels by what they do: in all three, summed, only left, only right, and summed on one side alone."""

    def __init__(self, batch: str, summed: str, left: str, right: str) -> None:
        self.batch, self.summed, self.left, self.right = batch, summed, left, right

    @classmethod
    def of(cls, first: str, second: str, output: str) -> _Product:
        return cls(
            batch="".join(label for label in output if label in first and label in second),
            summed="".join(label for label in first if label in second and label not in output),
            left="".join(label for label in output if label in first and label not in second),
            right="".join(label for label in output if label in second and label not in first),
        )

    def can_merge(self, sizes: dict[str, int | None]) -> bool:
        """Whether every Reshape that joins or splits labels has one unknown size at most."""

        def unknown(labels: str) -> int:
            return sum(sizes[label] is None for label in labels)

        if all(len(group) == 1 for group in (self.summed, self.left, self.right)):
            return True
        # Reshape copies the batch sizes; of the others it can find one
        return unknown(self.left) + unknown(self.right) <= 1 and unknown(self.summed) == 0


def _transposed(build: Builder, tensor: str, labels: str, wanted: str, output: str = "") -> str:
    if labels == wanted:
        return build.op("Identity", [tensor], output) if output else tensor
    return build.op("Transpose", [tensor], output, perm=[labels.index(label) for label in wanted])


def _reduced(build: Builder, tensor: str, labels: str, kept: str) -> tuple[str, str]:
    """Sum over the labels that are not kept."""
    axes = [axis for axis, label in enumerate(labels) if label not in kept]
    if not axes:
        return tensor, labels
    left = "".join(label for label in labels if label in kept)
    return build.reduce("ReduceSum", tensor, axes, keepdims=0), left


def _single(node: onnx.NodeProto, build: Builder, labels: str, output: str) -> None:
    tensor, labels = _reduced(build, node.input[0], labels, output)
    _transposed(build, tensor, labels, output, node.output[0])


def _multiply(
    node: onnx.NodeProto,
    build: Builder,
    operands: Sequence[str],
    plan: _Product,
    sizes: dict[str, int | None],
    output: str,
) -> None:
    merge = not all(len(group) == 1 for group in (plan.summed, plan.left, plan.right))
    sides = []
    wanted = (plan.batch + plan.left + plan.summed, plan.batch + plan.summed + plan.right)
    groups = ((plan.left, plan.summed), (plan.summed, plan.right))
    for name, labels, order, pair in zip(node.input, operands, wanted, groups, strict=True):
        tensor, labels = _reduced(build, name, labels, order)  # noqa: PLW2901
        tensor = _transposed(build, tensor, labels, order)
        if merge:
            tensor = build.reshape(tensor, [0] * len(plan.batch) + [_joined(group, sizes) for group in pair])
        sides.append(tensor)
    natural = plan.batch + plan.left + plan.right
    product = build.op("MatMul", sides, "" if merge or natural != output else node.output[0])
    if merge:
        dims: Dims = tuple(sizes[label] for label in plan.left + plan.right)
        split = [0] * len(plan.batch) + [-1 if dim is None else dim for dim in dims]
        product = build.reshape(product, split, node.output[0] if natural == output else "")
    if natural != output:
        _transposed(build, product, natural, output, node.output[0])


def _joined(labels: str, sizes: dict[str, int | None]) -> int:
    dims = [sizes[label] for label in labels]
    known = [dim for dim in dims if dim is not None]
    return math.prod(known) if len(known) == len(dims) else -1
