"""The duration predictor's spline, rewritten without data-dependent shapes.

The stochastic duration predictor inverts monotonic rational-quadratic splines with linear tails (Durkan, Bekasov,
Murray, Papamakarios: "Neural Spline Flows", 2019, section 3.1). The exported form picks the elements inside the
spline's interval by boolean indexing (``NonZero``, ``GatherND``, ``ScatterND``), so the number of elements inside
is a shape. Here every element goes through the spline, those outside clamped to the interval's border, and a
``Where`` keeps the identity for them. The cumulated sum becomes a product with a triangle, the choice of a bin a sum
over a one-hot row.

The spline is found by its structure and its parameters (interval, smallest width, height and derivative, derivative at
the border, number of bins) are read from the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from voxrepo.importers.graph import Graph
from voxrepo.importers.spline_match import LAST, Spline, find_splines


class _Writer:
    """Appends nodes and constants for one dense spline."""

    def __init__(self, graph: Graph, names: Iterator[str]) -> None:
        self._graph = graph
        self._names = names
        self.nodes: list[onnx.NodeProto] = []

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        output = next(self._names)
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], **attributes))
        return output

    def const(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        name = next(self._names)
        self._graph.constants[name] = numpy_helper.from_array(np.asarray(value, dtype=dtype), name)
        return name

    def along_bins(self, tensor: str, start: int, end: int) -> str:
        bounds = [self.const([v], np.int64) for v in (start, end, -1)]
        return self.op("Slice", tensor, *bounds)

    def pad_bins(self, tensor: str, before: int, after: int, value: float) -> str:
        pads = self.const([0, 0, 0, before, 0, 0, 0, after], np.int64)
        return self.op("Pad", tensor, pads, self.const(value), mode="constant")


def _write_knots(w: _Writer, logits: str, bins: int, min_size: float, low: float, high: float) -> tuple[str, str]:
    """(knots [..., bins + 1], bin sizes [..., bins])."""
    share = w.op("Softmax", logits, axis=-1)
    size = w.op("Add", w.op("Mul", share, w.const(1.0 - min_size * bins)), w.const(min_size))
    # column j sums the bins before knot j
    triangle = w.const(np.triu(np.ones((bins, bins + 1)), k=1))
    cumulated = w.op("MatMul", size, triangle)
    scaled = w.op("Add", w.op("Mul", cumulated, w.const(high - low)), w.const(low))
    is_border = np.zeros(bins + 1, dtype=np.bool_)
    is_border[[0, -1]] = True
    border = np.zeros(bins + 1)
    border[0], border[-1] = low, high
    knots = w.op("Where", w.const(is_border, np.bool_), w.const(border), scaled)
    return knots, w.op("Sub", w.along_bins(knots, 1, LAST), w.along_bins(knots, 0, -1))


def _write(w: _Writer, s: Spline) -> str:
    """Write the dense spline; returns the name of its result."""
    clamped = w.op("Clip", s.value, w.const(s.low), w.const(s.high))
    knots_x, widths = _write_knots(w, s.widths, s.bins, s.min_width, s.low, s.high)
    knots_y, heights = _write_knots(w, s.heights, s.bins, s.min_height, s.low, s.high)
    slopes = w.op(
        "Add",
        w.op("Softplus", w.pad_bins(s.derivatives, 1, 1, s.border_derivative)),
        w.const(s.min_derivative),
    )
    last = w.const([-1], np.int64)
    reached = w.op(
        "Cast",
        w.op("GreaterOrEqual", w.op("Unsqueeze", clamped, last), w.along_bins(knots_y, 1, -1)),
        to=onnx.TensorProto.FLOAT,
    )
    # the first knot is always reached, the last never: a clamped value lies in exactly one bin
    chosen = w.op("Sub", w.pad_bins(reached, 1, 0, 1.0), w.pad_bins(reached, 0, 1, 0.0))

    def pick(values: str) -> str:
        return w.op("ReduceSum", w.op("Mul", chosen, values), last, keepdims=0)

    x0, y0 = pick(w.along_bins(knots_x, 0, -1)), pick(w.along_bins(knots_y, 0, -1))
    width, height = pick(widths), pick(heights)
    slope0, slope1 = pick(w.along_bins(slopes, 0, -1)), pick(w.along_bins(slopes, 1, LAST))
    # equations 6 to 8 of the paper's section 3.1: a t^2 + b t + c = 0 for the place t in the bin, in the
    # numerically stable form t = 2c / (-b - sqrt(b^2 - 4ac))
    mean_slope = w.op("Div", height, width)
    rise = w.op("Sub", clamped, y0)
    bend = w.op("Sub", w.op("Add", slope0, slope1), w.op("Mul", mean_slope, w.const(2.0)))
    rise_bend = w.op("Mul", rise, bend)
    a = w.op("Add", w.op("Mul", height, w.op("Sub", mean_slope, slope0)), rise_bend)
    b = w.op("Sub", w.op("Mul", height, slope0), rise_bend)
    c = w.op("Neg", w.op("Mul", mean_slope, rise))
    four_ac = w.op("Mul", w.op("Mul", a, c), w.const(4.0))
    root = w.op("Sqrt", w.op("Sub", w.op("Mul", b, b), four_ac))
    place = w.op("Div", w.op("Mul", c, w.const(2.0)), w.op("Sub", w.op("Neg", b), root))
    transformed = w.op("Add", w.op("Mul", place, width), x0)
    return w.op("Where", s.inside, transformed, s.value)


def rewrite_splines(graph: Graph) -> int:
    """Replace every boolean-indexed spline of ``graph`` by its dense form, in place.

    Returns:
        How many were replaced.

    Raises:
        ConversionRefused: a spline was met whose form is not known.
    """
    splines = find_splines(graph)
    names = graph.fresh_names("dense_spline")
    replaced: dict[str, str] = {}
    added: list[onnx.NodeProto] = []
    for spline in splines:
        writer = _Writer(graph, names)
        replaced[spline.result] = _write(writer, spline)
        added.extend(writer.nodes)
    for node in graph.nodes:
        for index, name in enumerate(node.input):
            if name in replaced:
                node.input[index] = replaced[name]
    # the order is restored when a piece is extracted; only producers and consumers matter here
    graph.nodes.extend(added)
    for node in added:
        for index, name in enumerate(node.input):
            node.input[index] = replaced.get(name, name)
    graph.reindex()
    return len(splines)
