"""Proof that a geared graph computes what its source computes: padded to every gear, against the true lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voxrepo.convert.precision.tiers import FP32
from voxrepo.convert.proof_cases import Array, Case, open_session
from voxrepo.importers.onnx_run import run
from voxrepo_contract.errors import ConversionRefused
from voxrepo_contract.stage import GraphSpec, GraphTensor

TOLERANCE = 1e-3
"""Largest difference: absolute, of durations relative. Other kernels for another batch size make some 1e-4."""
LOWERED_TOLERANCE = {"fp16": 0.1, "mixed": 0.1, "int8": 0.5}
"""The same for lowered graphs, relative to the largest value of the output, of durations to themselves or one frame.

There a difference of 1e-6 between kernels may tip a value over to the next step of a half or of an 8-bit number, and
the layers after it pass that on. So padding is proved on the graph before it is lowered, with ``TOLERANCE``, and this
is a guard against what lowering may have broken in the padding: a scale, a mask, a value that is not a number."""
RELATIVE = frozenset({"durations"})
"""Outputs without a scale of their own: a duration has one frame or two hundred."""

_NUMPY = {
    "BOOL": np.bool_, "INT8": np.int8, "UINT8": np.uint8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


@dataclass
class GearProof:
    """What was measured.

    Attributes:
        gears: gears that were run; all of them.
        rows: rows compared.
        texts: texts that the rows come from.
        tolerance: what is allowed.
        max_diff: largest difference by output, see ``TOLERANCE`` and ``LOWERED_TOLERANCE``.
        lowered: the same of the lowered graph, where this one is of the graph before it was lowered.
    """

    texts: int
    tolerance: float = TOLERANCE
    gears: int = 0
    rows: int = 0
    max_diff: dict[str, float] = field(default_factory=dict)
    lowered: GearProof | None = None

    def note(self, output: str, difference: float) -> None:
        """Keep the largest difference of an output; what is not a number counts as infinite."""
        difference = np.inf if np.isnan(difference) else difference
        self.max_diff[output] = max(self.max_diff.get(output, 0.0), difference)

    def table(self) -> dict[str, Any]:
        """Plain values for ``stage.yaml``, three significant digits."""
        return {
            "texts": self.texts,
            "gears": self.gears,
            "rows": self.rows,
            "tolerance": self.tolerance,
            "max_diff": {name: float(f"{value:.3g}") for name, value in self.max_diff.items()},
            **({"lowered": self.lowered.table()} if self.lowered else {}),
        }


def prove_gears(
    name: str,
    model: bytes,
    spec: GraphSpec,
    length_axis: str,
    cases: Sequence[Case],
    texts: int,
    progress: Callable[[str, float], None],
    precision: str = FP32,
) -> GearProof:
    """Run every case in its smallest gear and every gear with cases that fit it, and compare.

    A gear of several rows keeps its last row empty (length 0): nothing there may turn into a value that is not a
    number.

    Args:
        name: of the graph, for messages.
        model: ONNX bytes that compute what the compiled file computes.
        spec: its tensors and gears.
        length_axis: the axis, besides ``batch``, whose sizes the gears give.
        cases: none longer than the longest gear.
        texts: number of texts behind the cases.
        progress: is told a sentence and the share done.
        precision: of the graph and of what made the outputs of the cases.

    Raises:
        ConversionRefused: the graph does not run in a gear, or differs by more than is allowed.
    """
    session = open_session(model)
    proof = GearProof(texts, LOWERED_TOLERANCE.get(precision, TOLERANCE))
    ascending = sorted(cases, key=lambda case: case.sizes[length_axis])
    runs: list[tuple[Mapping[str, int], list[Case]]] = [
        (gear, _filling(gear, ascending, length_axis)) for gear in spec.gears
    ]
    runs += [(_smallest(spec.gears, case.sizes[length_axis], length_axis), [case]) for case in ascending]
    for number, (gear, rows) in enumerate(runs):
        progress(f"proving the {name} in gear {_shown(gear)}", number / len(runs))
        feeds = {tensor.name: _padded(tensor, gear, rows) for tensor in spec.inputs}
        outputs = run(session, feeds, f"the {name} in gear {_shown(gear)}")
        for tensor in spec.outputs:
            _compare(proof, name, gear, tensor, outputs[tensor.name], rows, scaled=precision in LOWERED_TOLERANCE)
        proof.rows += len(rows)
    proof.gears = len(spec.gears)
    worst = max(proof.max_diff, key=lambda output: proof.max_diff[output])
    if not proof.max_diff[worst] <= proof.tolerance:
        raise ConversionRefused(
            f"the {name} in its gears is not the source: {worst!r} differs by {proof.max_diff[worst]:.2g}, at most "
            f"{proof.tolerance:g} is allowed; the graph does not keep padding apart from true {length_axis}"
        )
    return proof


def prove_exact(
    name: str, model: bytes, spec: GraphSpec, cases: Sequence[Case], texts: int, precision: str = FP32
) -> GearProof:
    """The same for a graph that takes any size: every case at its own length, and against the cases' outputs.

    Raises:
        ConversionRefused: the graph does not run, or differs by more than is allowed.
    """
    session = open_session(model)
    proof = GearProof(texts, LOWERED_TOLERANCE.get(precision, TOLERANCE))
    for case in cases:
        outputs = run(session, case.inputs, f"the {name}")
        for tensor in spec.outputs:
            _compare(
                proof, name, case.sizes, tensor, outputs[tensor.name], [case], scaled=precision in LOWERED_TOLERANCE
            )
    proof.rows = len(cases)
    worst = max(proof.max_diff, key=lambda output: proof.max_diff[output])
    if not proof.max_diff[worst] <= proof.tolerance:
        raise ConversionRefused(
            f"the {name} is not the source: {worst!r} differs by {proof.max_diff[worst]:.2g}, at most "
            f"{proof.tolerance:g} is allowed"
        )
    return proof


def one_batch(spec: GraphSpec, rows: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Inputs of the largest gear, filled with rows as far as they fit."""
    gear = max(spec.gears, key=lambda sizes: (max(sizes.values()), sizes["batch"]))
    full: dict[str, Array] = {}
    for tensor in spec.inputs:
        dims = [dim if isinstance(dim, int) else gear[dim] for dim in tensor.dims]
        full[tensor.name] = np.zeros(dims, _NUMPY[tensor.dtype])
    for row, values in enumerate(rows[-gear["batch"] :]):
        for name, target in full.items():
            # a generator's mask is not among its source's inputs
            value = values.get(name)
            value = np.ones((1, *target.shape[1:]), target.dtype) if value is None else value
            sizes = [min(one, other) for one, other in zip(value.shape[1:], target.shape[1:], strict=True)]
            target[_corner(row, sizes)] = value[0][tuple(slice(0, size) for size in sizes)]
        if "lengths" in full:
            full["lengths"][row] = min(int(values["lengths"][0]), gear.get("ids", int(values["lengths"][0])))
    return full


def _shown(gear: Mapping[str, int]) -> str:
    return " x ".join(f"{size} {axis}" for axis, size in gear.items() if axis != "samples")


def _filling(gear: Mapping[str, int], ascending: Sequence[Case], axis: str) -> list[Case]:
    """The longest cases that fit, one row left empty; a gear shorter than all of them is run empty."""
    fitting = [case for case in ascending if case.sizes[axis] <= gear[axis]]
    return fitting[-max(1, gear["batch"] - 1) :]


def _smallest(gears: Sequence[Mapping[str, int]], size: int, axis: str) -> Mapping[str, int]:
    return min((gear for gear in gears if gear[axis] >= size), key=lambda gear: (gear[axis], gear["batch"]))


def _padded(tensor: GraphTensor, gear: Mapping[str, int], rows: Sequence[Case]) -> Array:
    """An input of the gear's dims: the rows one below the other, zeros elsewhere."""
    full = np.zeros([dim if isinstance(dim, int) else gear[dim] for dim in tensor.dims], _NUMPY[tensor.dtype])
    for row, case in enumerate(rows):
        value = case.inputs[tensor.name]
        full[_corner(row, value.shape[1:])] = value[0]
    return full


def _corner(row: int, sizes: Sequence[int]) -> tuple[int | slice, ...]:
    """Index of the part of a row that begins at zero on every axis and has these sizes."""
    return (row, *(slice(0, size) for size in sizes))


def _compare(
    proof: GearProof,
    name: str,
    gear: Mapping[str, int],
    tensor: GraphTensor,
    value: Array,
    rows: Sequence[Case],
    *,
    scaled: bool,
) -> None:
    expected_shape = tuple(dim if isinstance(dim, int) else gear[dim] for dim in tensor.dims)
    if value.shape != expected_shape:
        raise ConversionRefused(
            f"the {name} makes {tensor.name!r} of shape {list(value.shape)} in gear {_shown(gear)}, "
            f"expected {list(expected_shape)}"
        )
    if not np.isfinite(value).all():
        raise ConversionRefused(
            f"the {name} makes values of {tensor.name!r} that are not finite numbers in gear {_shown(gear)}, "
            "where a row is empty or padded"
        )
    for row, case in enumerate(rows):
        reference = case.outputs[tensor.name][0].astype(np.float64)
        got = value[_corner(row, reference.shape)].astype(np.float64)
        difference = np.abs(got - reference)
        if tensor.name in RELATIVE:
            difference = difference / np.maximum(np.abs(reference), 1.0 if scaled else 1e-6)
        elif scaled:
            difference = difference / max(float(np.abs(reference).max(initial=0.0)), 1e-6)
        proof.note(tensor.name, float(np.max(difference, initial=0.0)))
