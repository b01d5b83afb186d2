"""What a model says of itself: tensors as the descriptor calls see them, gears, sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from acl.emulation.dtypes import ACL_OF_NAME
from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import ITEM_BYTES, OmHeader, OmTensor

HIDDEN_INPUT: Final = "ascend_mbatch_shape_data"
NAME_LIMIT: Final = 127
"""Longest tensor name that the descriptor shows; longer ones get a made-up name."""

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """An input or output as the descriptor shows it.

    Attributes:
        name: shown name.
        real_name: name in the graph.
        acl_type: data type number.
        dims: -1 where it varies.
        ranges: for range models lowest and highest size of each axis.
        item_bytes: bytes per element.
    """

    name: str
    real_name: str
    dtype: str
    acl_type: int
    dims: Dims
    ranges: tuple[tuple[int, int], ...]
    item_bytes: int

    def bytes_of(self, dims: Sequence[int]) -> int:
        """Bytes at these dims."""
        return math.prod(dims) * self.item_bytes


@dataclass
class Gear:
    """One choice of dims.

    Attributes:
        inputs: dims of each input, in the order of the graph, without the hidden one.
        joined: dims of all inputs one after the other, in the order of ATC's --input_shape.
        outputs: dims of each output; ``None`` until they are known.
    """

    inputs: tuple[Dims, ...]
    joined: Dims
    outputs: tuple[Dims, ...] | None


@dataclass
class GraphFacts:
    """Everything the descriptor calls tell.

    Attributes:
        inputs: the hidden gear input last, if there is one.
        gears: in the order of the file.
        largest: the gear at which the model runs if none is set.
    """

    header: OmHeader
    inputs: list[Tensor]
    outputs: list[Tensor]
    gears: list[Gear] = field(default_factory=list)
    largest: int = 0

    @property
    def kind(self) -> str:
        """How its shapes vary."""
        return self.header.kind

    @property
    def has_gears(self) -> bool:
        """Whether it has a hidden gear input."""
        return bool(self.gears)

    @property
    def hidden_index(self) -> int:
        """Index of the hidden gear input, -1 if there is none."""
        return len(self.inputs) - 1 if self.gears else -1

    def input_bytes(self, index: int) -> int:
        """As ``get_input_size_by_index``: of the largest gear, of the greatest sizes, or 0 if unbounded."""
        tensor = self.inputs[index]
        if self.gears and index != self.hidden_index:
            return max(tensor.bytes_of(gear.inputs[index]) for gear in self.gears)
        return _bounded_bytes(tensor)

    def output_bytes(self, index: int) -> int:
        """As ``get_output_size_by_index``; 0 if no bound is known."""
        tensor = self.outputs[index]
        if self.gears:
            known = [gear.outputs[index] for gear in self.gears if gear.outputs is not None]
            return max(tensor.bytes_of(dims) for dims in known)
        return 0 if self.header.unbounded_outputs else _bounded_bytes(tensor)


def _bounded_bytes(tensor: Tensor) -> int:
    if -1 not in tensor.dims:
        return tensor.bytes_of(tensor.dims)
    if not tensor.ranges or any(high == -1 for _, high in tensor.ranges):
        return 0
    return tensor.bytes_of([high for _, high in tensor.ranges])


def facts_of(header: OmHeader) -> GraphFacts:
    """What the descriptor calls tell of a file."""
    inputs = [_tensor(tensor, "input", index) for index, tensor in enumerate(header.inputs)]
    outputs = [_tensor(tensor, "output", index) for index, tensor in enumerate(header.outputs)]
    gears = [
        _gear(header, gear, header.outputs_by_gear[number] if header.outputs_by_gear else None)
        for number, gear in enumerate(header.gears)
    ]
    facts = GraphFacts(header, inputs, outputs, gears)
    if gears:
        sizes = [sum(t.bytes_of(dims) for t, dims in zip(inputs, gear.inputs, strict=True)) for gear in gears]
        facts.largest = sizes.index(max(sizes))
        count = len(gears[0].joined) if header.kind == emulated_om.DIMS_GEARS else 1
        if header.kind == emulated_om.IMAGE_GEARS:
            count = 2
        facts.inputs.append(Tensor(HIDDEN_INPUT, HIDDEN_INPUT, "INT32", ACL_OF_NAME["INT32"], (count,), (), 4))
    return facts


def _tensor(tensor: OmTensor, role: str, index: int) -> Tensor:
    long = len(tensor.name.encode()) > NAME_LIMIT
    return Tensor(
        name=f"acl_{role}_{index}" if long else tensor.name,
        real_name=tensor.name,
        dtype=tensor.dtype,
        acl_type=ACL_OF_NAME[tensor.dtype],
        dims=tensor.dims,
        ranges=tensor.ranges,
        item_bytes=ITEM_BYTES[tensor.dtype],
    )


def _gear(header: OmHeader, gear: Mapping[str, Dims], outputs: Mapping[str, Dims] | None) -> Gear:
    order = header.input_order or tuple(tensor.name for tensor in header.inputs)
    return Gear(
        inputs=tuple(tuple(gear[tensor.name]) for tensor in header.inputs),
        joined=tuple(dim for name in order for dim in gear[name]),
        outputs=None if outputs is None else tuple(tuple(outputs[tensor.name]) for tensor in header.outputs),
    )
