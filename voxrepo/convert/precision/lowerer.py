"""One graph, ready to be lowered with any choice of nodes that stay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx

from voxrepo.convert.precision.eight_bit import calibrate, layers_of, quantise
from voxrepo.convert.precision.half import clamp_masks, lowerable, to_half
from voxrepo.convert.precision.nodes import plain
from voxrepo.convert.precision.range_check import too_large
from voxrepo.convert.precision.tiers import FP32, INT8, parse_precision
from voxrepo.convert.proof_cases import open_session
from voxrepo.importers.onnx_run import run
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]
Rows = Sequence[Mapping[str, Array]]
Device = Literal["cpu", "npu"]

SAME = 1e-5
"""Largest difference, relative to the largest value, that a shortened mask constant may make."""


class Lowerer:
    """Lowers a graph to one precision.

    Args:
        model: FP32; not changed.
        precision: ``fp32``, ``fp16``, ``mixed`` or ``int8``.
        rows: inputs on real texts, for scales and ranges.
        device: a CPU stores halves and computes in FP32, and its 8-bit kernels want quantised results; for an NPU what
            it does itself is copied.

    Attributes:
        model: the FP32 graph that is lowered: of the same results as the one given.
        layers: names of the nodes that can be lowered, in the graph's order.
        fixed: nodes that stay FP32 whatever is chosen, with the reason.

    Raises:
        ConversionRefused: the graph cannot be lowered at all.
    """

    def __init__(self, model: onnx.ModelProto, precision: str, rows: Rows, device: Device) -> None:
        precision = parse_precision(precision)
        self.model = plain(model) if precision != FP32 else model
        self.fixed: dict[str, str] = {}
        self.layers: list[str] = []
        self._precision = precision
        self._device = device
        if precision == FP32:
            return
        if precision == INT8:
            self.layers = layers_of(self.model)
            self._ranges = calibrate(self.model, rows)
            return
        self.model = _with_short_masks(self.model, rows)
        self.fixed = dict(to_half(self.model, form="rounded").kept)
        if device == "npu":
            self.fixed = {**too_large(self.model, rows), **self.fixed}
        self.layers = [name for name in lowerable(self.model) if name not in self.fixed]

    def at(self, keep: Collection[str] = ()) -> onnx.ModelProto:
        """The graph with all layers lowered but those of ``keep``."""
        if self._precision == FP32:
            return self.model
        if self._precision == INT8:
            return quantise(self.model, self._ranges, keep, results=self._device == "cpu")
        form: Literal["rounded", "stored"] = "rounded" if self._device == "npu" else "stored"
        return to_half(self.model, {*keep, *self.fixed}, form=form).model


def lower(
    model: onnx.ModelProto, precision: str, rows: Rows = (), keep: Collection[str] = (), device: Device = "npu"
) -> onnx.ModelProto:
    """Lower a graph to a precision; see :class:`Lowerer`. ``mixed`` is ``fp16`` with a choice of nodes to keep."""
    return Lowerer(model, precision, rows, device).at(keep)


def _with_short_masks(model: onnx.ModelProto, rows: Rows) -> onnx.ModelProto:
    shortened, changed = clamp_masks(model)
    if not changed:
        return model
    one, other = (open_session(each.SerializeToString()) for each in (model, shortened))
    for row in rows[:2]:
        values, again = (run(session, row, "the graph, with shorter masks,") for session in (one, other))
        for name, value in values.items():
            if np.abs(value - again[name]).max(initial=0.0) > SAME * max(1.0, float(np.abs(value).max(initial=0.0))):
                return model  # not masks; the nodes that read them stay in FP32
    return shortened


def noise_db(reference: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """Power of the difference against that of the reference, in dB; of the worst output; not a number is infinite."""
    worst = -np.inf
    for name, value in reference.items():
        wanted = value.astype(np.float64)
        got = found[name].astype(np.float64)
        if got.shape != wanted.shape or not np.isfinite(got).all():
            return float(np.inf)
        power = max(float(np.mean(wanted**2)), 1e-20)
        worst = max(worst, 10 * float(np.log10(max(float(np.mean((got - wanted) ** 2)) / power, 1e-20))))
    return float(worst)


def run_rows(model: onnx.ModelProto, rows: Rows, what: str) -> Iterator[dict[str, Array]]:
    """What a graph makes of each row."""
    session = open_session(model.SerializeToString())
    return (run(session, row, what) for row in rows)


def must_be_lowered(lowerers: Mapping[str, Lowerer], precision: str) -> None:
    """Refuse a stage of which nothing can be lowered.

    Raises:
        ConversionRefused: saying what stands against it.
    """
    if precision == FP32 or any(lowerer.layers for lowerer in lowerers.values()):
        return
    reasons = {reason for lowerer in lowerers.values() for reason in lowerer.fixed.values()}
    why = f": {'; '.join(sorted(reasons)[:3])}" if reasons else ", it has no layers with constant weights"
    raise ConversionRefused(f"nothing in this stage can be lowered to {precision}{why}")
