"""What an OM file, of Huawei's or of the emulator, says of its tensors, with a name for each axis that varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from voxrepo_contract import emulated_om, om
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import BATCH_AXIS, Dim

_DTYPES = frozenset(
    ("BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FP16", "FP32", "FP64")
)

Gears = Sequence[Mapping[str, tuple[int, ...]]]


@dataclass(frozen=True)
class RawTensor:
    """A tensor with -1 where a size varies; ``ranges`` as in the files, empty unless built for ranges."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class NamedTensor:
    """A tensor with a name for each axis that varies."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class OmFacts:
    """An OM file as a caller must know it.

    Attributes:
        inputs: in the graph's order, without the hidden gear input.
        outputs: in the graph's order.
        gears: joint sizes of all axes of the inputs that vary; empty for static graphs and for ranges.
        has_batch: whether the first axis of every tensor is one batch.
        max_batch: the largest one; None without a bound.
        soc: chip that it was built for.
    """

    inputs: tuple[NamedTensor, ...]
    outputs: tuple[NamedTensor, ...]
    gears: tuple[Mapping[str, int], ...]
    has_batch: bool
    max_batch: int | None
    soc: str


def read_om_facts(file: Path) -> OmFacts:
    """Read an OM file; which of the two kinds it is, is told by its first bytes.

    Raises:
        ConfigError: it is neither, it is damaged, or it has tensors that no request can carry.
    """
    if om.identify(file) == "emulated_om":
        header = emulated_om.read_header(file)
        inputs = tuple(RawTensor(t.name, t.dtype, t.dims, t.ranges) for t in header.inputs)
        outputs = tuple(RawTensor(t.name, t.dtype, t.dims) for t in header.outputs)
        return named(file, header.kind, inputs, outputs, header.gears, header.soc)
    found = om.read(file)
    inputs = tuple(RawTensor(t.name, t.dtype, t.dims, t.ranges) for t in found.inputs)
    return named(file, found.kind, inputs, huawei_outputs(found), found.gears, found.soc)


def huawei_outputs(found: om.OmFile) -> tuple[RawTensor, ...]:
    """Outputs with -1 where they may vary: of a model with gears, Huawei's file gives the sizes of the largest one."""
    if not found.gears:
        return tuple(RawTensor(t.name, t.dtype, t.dims) for t in found.outputs)
    batches = {dims[0] for gear in found.gears for dims in gear.values() if dims}
    largest = max(batches, default=0)
    raw = []
    for tensor in found.outputs:
        first, rest = tensor.dims[:1], tensor.dims[1:]
        if found.kind == "batch_gears":
            dims = (*(-1 if dim in (-1, largest) else dim for dim in first), *rest)
        else:
            # which axes vary, the file does not say
            dims = (-1,) * len(tensor.dims)
        raw.append(RawTensor(tensor.name, tensor.dtype, dims))
    return tuple(raw)


def named(
    file: Path, kind: str, inputs: Sequence[RawTensor], outputs: Sequence[RawTensor], gears: Gears, soc: str
) -> OmFacts:
    """Check the tensors and name the axes that vary: ``batch``, else tensor and number of the axis.

    Raises:
        ConfigError: a tensor cannot be carried by a request, or the gears are of a kind that is not supported.
    """
    if kind == "image_gears":
        raise ConfigError(
            "was built with --dynamic_image_size, which is not supported; build it with --dynamic_dims", file=file
        )
    if not inputs:
        raise ConfigError("has no inputs, so there is nothing to ask it", file=file)
    for side, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            _check(tensor, side, file)
    has_batch = _has_batch(kind, inputs, outputs, gears)
    limits = [gear[inputs[0].name][0] for gear in gears] if has_batch else []
    bounds = [high for tensor in inputs for _, high in tensor.ranges[:1] if high > 0] if has_batch else []

    def name(tensor: RawTensor, axis: int) -> str:
        return BATCH_AXIS if has_batch and axis == 0 else f"{tensor.name}.{axis}"

    def with_names(tensor: RawTensor) -> NamedTensor:
        dims = tuple(name(tensor, axis) if dim == -1 else dim for axis, dim in enumerate(tensor.dims))
        return NamedTensor(tensor.name, tensor.dtype, dims)

    return OmFacts(
        inputs=tuple(with_names(tensor) for tensor in inputs),
        outputs=tuple(with_names(tensor) for tensor in outputs),
        gears=tuple(
            {
                name(tensor, axis): gear[tensor.name][axis]
                for tensor in inputs
                for axis, dim in enumerate(tensor.dims)
                if dim == -1
            }
            for gear in gears
        ),
        has_batch=has_batch,
        max_batch=max(limits) if limits else min(bounds, default=None),
        soc=soc,
    )


def _has_batch(kind: str, inputs: Sequence[RawTensor], outputs: Sequence[RawTensor], gears: Gears) -> bool:
    """Whether every tensor's first axis is the batch: it varies, in all inputs alike, and rather is no length."""
    if not all(tensor.dims and tensor.dims[0] == -1 for tensor in (*inputs, *outputs)):
        return False
    if kind == "batch_gears":
        return True
    if all(len(tensor.dims) < 2 for tensor in inputs):
        return False
    sizes = {tuple(gear[t.name][0] for gear in gears) if gears else t.ranges[:1] for t in inputs}
    # a batch has room for a lone request, a length seldom starts at 1
    return len(sizes) == 1 and (not gears or min(gear[inputs[0].name][0] for gear in gears) == 1)


def _check(tensor: RawTensor, side: str, file: Path) -> None:
    if tensor.dtype not in _DTYPES:
        raise ConfigError(
            f"{side} {tensor.name!r} has the data type {tensor.dtype}, which no request can carry; build the model "
            "with another type there (atc --input_fp16_nodes, --output_type)",
            file=file,
        )
    if 0 in tensor.dims:
        raise ConfigError(
            f"{side} {tensor.name!r} has the shape {list(tensor.dims)}, and no request can carry an axis of size 0",
            file=file,
        )
