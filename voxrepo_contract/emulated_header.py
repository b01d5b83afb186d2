"""What an emulated OM says of itself: the header of its file, and whether it makes sense. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

STATIC: Final = "static"
BATCH_GEARS: Final = "batch_gears"
DIMS_GEARS: Final = "dims_gears"
IMAGE_GEARS: Final = "image_gears"
RANGE: Final = "range"
KINDS: Final = (STATIC, BATCH_GEARS, DIMS_GEARS, IMAGE_GEARS, RANGE)
GEAR_KINDS: Final = (BATCH_GEARS, DIMS_GEARS, IMAGE_GEARS)
MIN_GEARS: Final = 2
MAX_GEARS: Final = 100
"""ATC's limits on the number of gears (E10035 to E10039)."""

ITEM_BYTES: Final[Mapping[str, int]] = {
    "BOOL": 1,
    "INT8": 1,
    "UINT8": 1,
    "INT16": 2,
    "UINT16": 2,
    "INT32": 4,
    "UINT32": 4,
    "INT64": 8,
    "UINT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
}
"""Bytes per element of the dtypes that a file may declare, by Open Inference Protocol name."""


@dataclass(frozen=True)
class OmTensor:
    """An input or output.

    Attributes:
        name: as in the ONNX graph.
        dtype: Open Inference Protocol name.
        dims: sizes, -1 where it varies.
        ranges: for kind ``range`` the lowest and highest size of each axis, highest -1 if unbounded; else empty.
        format: memory layout, always ``ND``.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...] = ()
    format: str = "ND"


@dataclass(frozen=True)
class OmHeader:
    """What the converter wrote of a graph.

    Attributes:
        name: of the model.
        soc: chip it was built for, e.g. ``Ascend910B3``.
        kind: one of ``KINDS``.
        inputs: in the order of the graph, without the hidden gear input.
        outputs: in the order of the graph.
        gears: for gear kinds, each gear as input name -> dims, all inputs named.
        outputs_by_gear: same length as ``gears``, output name -> dims; empty where the converter did not know (the
            emulator then finds them by a trial run).
        input_order: names in the order of ATC's ``--input_shape``, in which a gear's dims are joined.
        precision: ``origin``, ``fp16``, ``mixed_float16`` ...
        cann_version: of the converter.
        opp_version: of the operator package; a range model runs with just this one.
        virtual_type: 1 if built for slices of a chip.
        weights_bytes: device memory for weights.
        work_bytes: device memory for intermediate results at the largest gear.
        unbounded_outputs: output sizes depend on values, so that no bound is known before a run.
        conversion: the command that made the file.
    """

    name: str
    soc: str
    kind: str
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    gears: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    outputs_by_gear: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    input_order: tuple[str, ...] = ()
    precision: str = "origin"
    cann_version: str = "8.2.RC1"
    opp_version: str = "8.2.RC1"
    virtual_type: int = 0
    weights_bytes: int = 0
    work_bytes: int = 0
    unbounded_outputs: bool = False
    conversion: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "name": self.name,
            "soc": self.soc,
            "kind": self.kind,
            "inputs": [_tensor_to_json(tensor) for tensor in self.inputs],
            "outputs": [_tensor_to_json(tensor) for tensor in self.outputs],
            "gears": [{name: list(dims) for name, dims in gear.items()} for gear in self.gears],
            "outputs_by_gear": [{name: list(dims) for name, dims in gear.items()} for gear in self.outputs_by_gear],
            "input_order": list(self.input_order or (tensor.name for tensor in self.inputs)),
            "precision": self.precision,
            "cann_version": self.cann_version,
            "opp_version": self.opp_version,
            "virtual_type": self.virtual_type,
            "weights_bytes": self.weights_bytes,
            "work_bytes": self.work_bytes,
            "unbounded_outputs": self.unbounded_outputs,
            "conversion": self.conversion,
        }


def problem_of(header: OmHeader) -> str:
    """How a header contradicts itself, "" if it does not."""
    if header.kind not in KINDS:
        return f"the kind {header.kind!r} is none of {', '.join(KINDS)}"
    if not header.inputs or not header.outputs:
        return "it has no inputs or no outputs"
    if min(header.weights_bytes, header.work_bytes) < 0:
        return "a size is negative"
    names = [tensor.name for tensor in header.inputs]
    if len(set(names)) != len(names):
        return "two inputs have one name"
    if header.input_order and sorted(header.input_order) != sorted(names):
        return "input_order does not name just the inputs"
    for tensor in (*header.inputs, *header.outputs):
        problem = _tensor_problem(tensor, header.kind)
        if problem:
            return f"{tensor.name!r} {problem}"
    varying = any(-1 in tensor.dims for tensor in header.inputs)
    if header.kind == STATIC and varying:
        return "it is static, yet an input has a size of -1"
    if header.kind not in GEAR_KINDS:
        return "it has gears, yet its kind has none" if header.gears else ""
    if not varying:
        return "it has gears, yet no input has a size of -1"
    return _gear_problem(header)


def _tensor_problem(tensor: OmTensor, kind: str) -> str:
    if tensor.dtype not in ITEM_BYTES:
        return f"has the unknown dtype {tensor.dtype!r}"
    if len(tensor.dims) > 128 or any(dim < -1 for dim in tensor.dims):
        return f"has the impossible dims {list(tensor.dims)}"
    if tensor.ranges and (kind != RANGE or len(tensor.ranges) != len(tensor.dims)):
        return "has ranges that do not go with its dims and kind"
    if any(low < 0 or (high != -1 and high < low) for low, high in tensor.ranges):
        return "has a range whose highest size is below its lowest"
    return ""


def _gear_problem(header: OmHeader) -> str:
    if not MIN_GEARS <= len(header.gears) <= MAX_GEARS:
        return f"{len(header.gears)} gears, {MIN_GEARS} to {MAX_GEARS} are allowed"
    if header.outputs_by_gear and len(header.outputs_by_gear) != len(header.gears):
        return "outputs_by_gear is not one entry per gear"
    for number, gear in enumerate(header.gears):
        problem = _fits_tensors(gear, header.inputs)
        if problem:
            return f"gear {number} {problem}"
    for number, gear in enumerate(header.outputs_by_gear):
        problem = _fits_tensors(gear, header.outputs)
        if problem:
            return f"outputs of gear {number}: it {problem}"
    return ""


def _fits_tensors(gear: Mapping[str, Sequence[int]], tensors: Sequence[OmTensor]) -> str:
    for tensor in tensors:
        dims = gear.get(tensor.name)
        if dims is None:
            return f"does not name {tensor.name!r}"
        fits = len(dims) == len(tensor.dims) and all(
            size >= 0 and declared in (-1, size) for size, declared in zip(dims, tensor.dims, strict=True)
        )
        if not fits:
            return f"gives {tensor.name!r} the dims {list(dims)}, declared are {list(tensor.dims)}"
    return ""


def _tensor_to_json(tensor: OmTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "format": tensor.format,
        "dims": list(tensor.dims),
        "ranges": [list(pair) for pair in tensor.ranges],
    }
