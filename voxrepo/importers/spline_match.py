"""Finding the boolean-indexed splines of a duration predictor by their structure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from voxrepo.importers.graph import Graph, attribute
from voxrepo_contract.errors import ConversionRefused

LAST = int(np.iinfo(np.int64).max)
"""End of an axis in a Slice."""

_INTERVAL_TOLERANCE = 1e-5


@dataclass(frozen=True)
class _Knots:
    """Parameters of the knots along one axis: a softmax over bins, scaled to the interval."""

    softmax: str
    logits: str
    min_size: float
    span: float
    start: float


@dataclass(frozen=True)
class Spline:
    """One spline of the source graph.

    Attributes:
        value: what is transformed, FP32 [batch, 1, ids].
        inside: whether an element lies in the interval, BOOL of the same shape.
        result: the tensor to replace, FP32 of the same shape.
        widths: unnormalised bin widths, FP32 [batch, 1, ids, bins].
        heights: unnormalised bin heights, FP32 [batch, 1, ids, bins].
        derivatives: unnormalised derivatives at the inner knots, FP32 [batch, 1, ids, bins - 1].
        bins: number of bins.
        low: start of the interval.
        high: end of the interval.
        min_width: smallest share of the interval that a bin takes along x.
        min_height: the same along y.
        border_derivative: unnormalised derivative at both ends.
        min_derivative: smallest derivative.
    """

    value: str
    inside: str
    result: str
    widths: str
    heights: str
    derivatives: str
    bins: int
    low: float
    high: float
    min_width: float
    min_height: float
    border_derivative: float
    min_derivative: float


def _refused(problem: str) -> ConversionRefused:
    return ConversionRefused(
        f"the spline of the duration predictor has a form that is not known, so it cannot be rewritten: {problem}"
    )


def _bound(graph: Graph, tensor: str, op_type: str) -> tuple[str, float] | None:
    node = graph.made_by(tensor, op_type)
    limit = graph.scalar(node.input[1]) if node is not None else None
    return (node.input[0], limit) if node is not None and limit is not None else None


def _interval(graph: Graph, node: onnx.NodeProto) -> tuple[str, float, float] | None:
    """(value, low, high) if ``node`` is low <= value and value <= high."""
    for left, right in (node.input, reversed(node.input)):
        low = _bound(graph, left, "GreaterOrEqual")
        high = _bound(graph, right, "LessOrEqual")
        if low is not None and high is not None and low[0] == high[0]:
            return low[0], low[1], high[1]
    return None


def _indices(graph: Graph, condition: str) -> list[str]:
    """Tensors of the coordinates at which ``condition`` is true, [count, rank]."""
    conditions = [condition, *(n.output[0] for n in graph.used_by(condition, "Expand") if n.input[0] == condition)]
    return [
        transpose.output[0]
        for source in conditions
        for nonzero in graph.used_by(source, "NonZero")
        for transpose in graph.used_by(nonzero.output[0], "Transpose")
    ]


def _single(graph: Graph, tensor: str, op_type: str, what: str) -> onnx.NodeProto:
    nodes = graph.used_by(tensor, op_type)
    if len(nodes) != 1:
        raise _refused(f"{len(nodes)} {op_type} nodes follow {what}, there must be one")
    return nodes[0]


def _constant_operand(graph: Graph, node: onnx.NodeProto, what: str) -> float:
    found = graph.scalar_operand(node)
    if found is None:
        raise _refused(f"{what} is not a constant")
    return found[1]


def _fill_value(graph: Graph, tensor: str) -> float:
    """The one value that fills ``tensor``."""
    source = graph.up(tensor, ("Reshape", "Expand", "Unsqueeze"))
    node = graph.made_by(source, "ConstantOfShape")
    if node is not None:
        value = attribute(node, "value")
        return 0.0 if value is None else float(numpy_helper.to_array(value).reshape(()))
    constant = graph.constant(source)
    if constant is None or constant.size == 0 or not np.all(constant == constant.flat[0]):
        raise _refused("the derivative at the border is not a constant")
    return float(constant.flat[0])


def _knots(graph: Graph, gathered: str, logits: str) -> _Knots:
    softmax = _single(graph, gathered, "Softmax", "the bin sizes")
    scaled = _single(graph, softmax.output[0], "Mul", "the softmax of the bin sizes")
    floor = _single(graph, scaled.output[0], "Add", "the scaled bin sizes")
    cumulated = _single(graph, floor.output[0], "CumSum", "the bin sizes")
    padded = _single(graph, cumulated.output[0], "Pad", "the cumulated bin sizes")
    span = _single(graph, padded.output[0], "Mul", "the knots")
    start = _single(graph, span.output[0], "Add", "the scaled knots")
    return _Knots(
        softmax=softmax.output[0],
        logits=logits,
        min_size=_constant_operand(graph, floor, "the smallest bin size"),
        span=_constant_operand(graph, span, "the length of the interval"),
        start=_constant_operand(graph, start, "the start of the interval"),
    )


def _search_softmax(graph: Graph, value: str, indices: set[str], candidates: list[_Knots]) -> _Knots:
    """The knots that the value is compared with: the heights, as inference inverts the spline."""
    for node in graph.of_type("GreaterOrEqual"):
        gather = graph.made_by(graph.up(node.input[0], ("Unsqueeze", "Reshape")), "GatherND")
        if gather is None or gather.input[0] != value or gather.input[1] not in indices:
            continue
        above = graph.ancestors([node.input[1]], stop=[k.softmax for k in candidates])
        met = [k for k in candidates if k.softmax in above]
        if len(met) == 1:
            return met[0]
    raise _refused("no comparison of the value with the knots of one axis was found")


def _inner_derivatives(graph: Graph, tensor: str) -> tuple[str, float]:
    """(derivatives at the inner knots, derivative at the border)."""
    borders: set[float] = set()
    while (scatter := graph.made_by(tensor, "ScatterND")) is not None:
        borders.add(_fill_value(graph, scatter.input[2]))
        tensor = scatter.input[0]
    pad = graph.made_by(tensor, "Pad")
    if pad is None or len(borders) != 1:
        raise _refused("the derivatives are not padded with one constant at both ends")
    return pad.input[0], borders.pop()


def _last_axis_size(graph: Graph, tensor: str) -> int:
    """Size of the last axis of a slice with constant bounds, seen through scaling."""
    while (node := graph.made_by(tensor, "Div", "Mul")) is not None:
        found = graph.scalar_operand(node)
        if found is None:
            break
        tensor = found[0]
    cut = graph.made_by(tensor, "Slice")
    bounds = [graph.constant(name) for name in cut.input[1:4]] if cut is not None and len(cut.input) >= 4 else []
    if len(bounds) != 3 or any(bound is None or bound.size != 1 for bound in bounds):
        raise _refused("the bins are not cut out of one tensor at constant positions")
    start, end, axis = (int(bound.reshape(())) for bound in bounds if bound is not None)
    if axis not in {-1, 3} or start < 0 or not start < end < LAST:
        raise _refused(f"the bins are cut at {start} to {end} of axis {axis}")
    return end - start


def _result(graph: Graph, inside: str, outside: str) -> str:
    """The tensor into which the elements inside and outside were written."""
    inside_at, outside_at = set(_indices(graph, inside)), set(_indices(graph, outside))
    for node in graph.of_type("ScatterND"):
        previous = graph.made_by(node.input[0], "ScatterND")
        if previous is not None and (
            (node.input[1] in inside_at and previous.input[1] in outside_at)
            or (node.input[1] in outside_at and previous.input[1] in inside_at)
        ):
            return str(node.output[0])
    raise _refused("no pair of ScatterND nodes joins the elements inside and outside")


def _match(graph: Graph, both: onnx.NodeProto, value: str, low: float, high: float) -> Spline:
    inside = both.output[0]
    indices = set(_indices(graph, inside))
    gathers = [n for n in graph.of_type("GatherND") if n.input[1] in indices and n.input[0] != value]
    candidates = [_knots(graph, n.output[0], n.input[0]) for n in gathers if graph.used_by(n.output[0], "Softmax")]
    slopes = [(n, s) for n in gathers for s in graph.used_by(n.output[0], "Softplus")]
    if len(candidates) != 2 or len(slopes) != 1:
        raise _refused(f"{len(candidates)} softmax and {len(slopes)} softplus parameters, there must be 2 and 1")
    heights = _search_softmax(graph, value, indices, candidates)
    widths = next(k for k in candidates if k is not heights)
    for knots in candidates:
        if abs(knots.start - low) > _INTERVAL_TOLERANCE or abs(knots.start + knots.span - high) > _INTERVAL_TOLERANCE:
            raise _refused(f"the knots span {knots.start} to {knots.start + knots.span}, the interval {low} to {high}")
    derivatives, border = _inner_derivatives(graph, slopes[0][0].input[0])
    bins = _last_axis_size(graph, widths.logits)
    if _last_axis_size(graph, heights.logits) != bins:
        raise _refused("widths and heights have different numbers of bins")
    floor = _single(graph, slopes[0][1].output[0], "Add", "the softplus of the derivatives")
    outside = _single(graph, inside, "Not", "the interval test")
    return Spline(
        value=value,
        inside=inside,
        result=_result(graph, inside, outside.output[0]),
        widths=widths.logits,
        heights=heights.logits,
        derivatives=derivatives,
        bins=bins,
        low=low,
        high=high,
        min_width=widths.min_size,
        min_height=heights.min_size,
        border_derivative=border,
        min_derivative=_constant_operand(graph, floor, "the smallest derivative"),
    )


def find_splines(graph: Graph) -> list[Spline]:
    """All boolean-indexed splines of ``graph``, in order.

    Raises:
        ConversionRefused: a spline was met whose form is not known.
    """
    found: list[Spline] = []
    for node in graph.of_type("And"):
        interval = _interval(graph, node)
        if interval is not None and _indices(graph, node.output[0]):
            found.append(_match(graph, node, *interval))
    return found
