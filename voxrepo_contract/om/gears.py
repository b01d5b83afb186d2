"""From the three ways in which CANN stores gears to one: the dims of every input, per gear."""

from __future__ import annotations

from collections.abc import Sequence

from voxrepo_contract.om.inout import InOut
from voxrepo_contract.om.model import GEAR_INPUT, Kind, OmTensor
from voxrepo_contract.om.source import Source

Gear = dict[str, "tuple[int, ...]"]


def kind_and_gears(
    source: Source, described: InOut, inputs: Sequence[OmTensor], runs_dynamic: bool
) -> tuple[Kind, tuple[Gear, ...]]:
    """How shapes vary, and the gears if there are any.

    Args:
        source: for errors.
        described: what the file says.
        inputs: without the hidden one.
        runs_dynamic: whether the header asks for the executor for dynamic shapes.

    Raises:
        ConfigError: a gear does not have one size for each varying dim.
    """
    if described.dims_gears:
        ordered = in_shape_order(inputs, described.shape_order)
        return "dims_gears", tuple(_gear(source, ordered, values) for values in described.dims_gears)
    if described.batch_gears:
        return "batch_gears", tuple(_batch_gear(source, inputs, batch) for batch in described.batch_gears)
    if described.image_gears:
        return "image_gears", tuple(_image_gear(source, inputs, size) for size in described.image_gears)
    if any(tensor.name == GEAR_INPUT for tensor in described.inputs):
        # an old file whose gears lie in attributes with compressed names
        return "dims_gears", ()
    varies = any(dim < 0 for tensor in (*inputs, *described.outputs) for dim in tensor.dims)
    return ("range" if varies or runs_dynamic else "static"), ()


def in_shape_order(inputs: Sequence[OmTensor], shape_order: Sequence[str]) -> list[OmTensor]:
    """Inputs in the order of ATC's ``--input_shape``; those that it does not name follow in their own order."""
    by_name = {tensor.name: tensor for tensor in inputs}
    named = [by_name[name] for name in dict.fromkeys(shape_order) if name in by_name]
    return [*named, *(tensor for tensor in inputs if tensor not in named)]


def _gear(source: Source, ordered: Sequence[OmTensor], values: Sequence[int]) -> Gear:
    varying = sum(dim < 0 for tensor in ordered for dim in tensor.dims)
    if len(values) != varying or any(value < 1 for value in values):
        source.refuse(
            f"a gear has the sizes {list(values)}, but {varying} dims of the inputs vary; the file is damaged or not "
            "understood, please report it"
        )
    left = iter(values)
    return {tensor.name: tuple(next(left) if dim < 0 else dim for dim in tensor.dims) for tensor in ordered}


def _batch_gear(source: Source, inputs: Sequence[OmTensor], batch: int) -> Gear:
    if batch < 1:
        source.refuse(f"a gear has the batch size {batch}; the file is damaged")
    return {tensor.name: tuple(batch if dim < 0 else dim for dim in tensor.dims) for tensor in inputs}


def _image_gear(source: Source, inputs: Sequence[OmTensor], size: Sequence[int]) -> Gear:
    gear = {}
    for tensor in inputs:
        varying = sum(dim < 0 for dim in tensor.dims)
        gear.update(_gear(source, [tensor], size if varying else ()))
    return gear
