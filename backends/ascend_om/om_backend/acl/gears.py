"""Gears as AscendCL lists them: the dims of all inputs joined, in the order of ATC's ``--input_shape``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from om_backend.device.faults import Action, DeviceFault

Gear = Mapping[str, tuple[int, ...]]

_MOST_INPUTS_ORDERED = 6
"""720 orders; beyond, trying them all takes too long."""


def batch_gears(inputs: Mapping[str, Sequence[int]], batches: Sequence[int]) -> tuple[Gear, ...]:
    """Gears of a graph built for batch sizes.

    Args:
        inputs: dims by input name, -1 in the first place where the batch size goes.
        batches: the sizes.

    Raises:
        DeviceFault: a dim other than the first is -1.
    """
    for name, dims in inputs.items():
        if -1 in dims[1:]:
            raise _refusal(
                f"input {name} has the dims {list(dims)} in a model with batch gears; only the first may vary"
            )
    return tuple(
        {name: tuple(batch if dim == -1 else dim for dim in dims) for name, dims in inputs.items()} for batch in batches
    )


def split_gears(
    inputs: Mapping[str, Sequence[int]], joined: Sequence[Sequence[int]], order: Sequence[str]
) -> tuple[tuple[Gear, ...], tuple[str, ...]]:
    """Give each input its part of the joined dims.

    Args:
        inputs: dims by input name in the graph's order, -1 where they vary.
        joined: for each gear the dims of all inputs in a row.
        order: input names in the order in which they are joined; empty if the file does not tell.

    Returns:
        The gears, and the order in which dims must be joined for the device. If the file does not tell the order, it
        is found from the fixed dims; orders that give the same gears are as good as each other.

    Raises:
        DeviceFault: the dims do not fit the inputs in that order, or in several orders with different results.
    """
    if order:
        if sorted(order) != sorted(inputs):
            raise _refusal(f"the file orders the inputs {list(order)}, the model has {list(inputs)}; convert it again")
        gears = _split(inputs, joined, tuple(order))
        if gears is None:
            raise _refusal(f"the gears {[list(gear) for gear in joined]} do not fit the inputs {_shown(inputs)}")
        return gears, tuple(order)
    found: list[tuple[tuple[Gear, ...], tuple[str, ...]]] = []
    if len(inputs) > _MOST_INPUTS_ORDERED:
        raise _refusal(
            f"the file does not tell in which order its gears list the {len(inputs)} inputs; convert it again with a "
            "CANN that writes the order of --input_shape"
        )
    for candidate in permutations(inputs):
        gears = _split(inputs, joined, candidate)
        if gears is not None and all(gears != other for other, _ in found):
            found.append((gears, candidate))
    if not found:
        raise _refusal(f"the gears {[list(gear) for gear in joined]} do not fit the inputs {_shown(inputs)}")
    if len(found) > 1:
        raise _refusal(
            f"the file does not tell in which order its gears list the inputs {_shown(inputs)}, and more than one "
            "fits; convert it again with a CANN that writes the order of --input_shape"
        )
    return found[0]


def joined_dims(gear: Gear, order: Sequence[str]) -> list[int]:
    """All dims of a gear in a row, inputs in ``order``."""
    return [dim for name in order for dim in gear[name]]


def _split(
    inputs: Mapping[str, Sequence[int]], joined: Sequence[Sequence[int]], order: tuple[str, ...]
) -> tuple[Gear, ...] | None:
    gears = []
    for dims in joined:
        if len(dims) != sum(len(inputs[name]) for name in order):
            return None
        start, parts = 0, {}
        for name in order:
            declared = inputs[name]
            part = tuple(int(dim) for dim in dims[start : start + len(declared)])
            start += len(declared)
            if any(size < 0 or fixed not in (-1, size) for size, fixed in zip(part, declared, strict=True)):
                return None
            parts[name] = part
        gears.append({name: parts[name] for name in inputs})
    return tuple(gears)


def _shown(inputs: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{name} {list(dims)}" for name, dims in inputs.items())


def _refusal(problem: str) -> DeviceFault:
    return DeviceFault("gears", 0, Action.REFUSE, problem)
