"""Whether arrays are what a graph takes, before any call is made; pure functions.

The device reads bytes as they are: a wrong dtype of the right size goes in as garbage, a wrong shape runs at the shape
of an earlier request. So everything is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from om_backend.device.description import UNBOUNDED, GraphDescription, TensorInfo
from om_backend.device.dtypes import DTYPES
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array

_MOST_GEARS_SHOWN = 16
_OIP_NAMES = {dtype: name for name, dtype in DTYPES.items()}

Shapes = tuple[tuple[int, ...], ...]


def check_arrays(description: GraphDescription, arrays: Sequence[Array]) -> None:
    """Check number and dtypes of the inputs.

    Raises:
        DeviceFault: ``REQUEST``, saying which input and what it must be.
    """
    inputs = description.inputs
    if len(arrays) != len(inputs):
        takes = ", ".join(f"{tensor.name} {tensor.dtype} {list(tensor.dims)}" for tensor in inputs)
        raise _request(f"the model takes {len(inputs)} inputs ({takes}), {len(arrays)} were given")
    for tensor, array in zip(inputs, arrays, strict=True):
        if array.dtype != DTYPES[tensor.dtype]:
            given = _OIP_NAMES.get(array.dtype, str(array.dtype))
            raise _request(
                f"input {tensor.name} is {tensor.dtype} in this model and the array is {given}; convert the array, or "
                "build the model with the other type"
            )


def wrong_static_shape(description: GraphDescription, arrays: Sequence[Array]) -> DeviceFault:
    """The fault for arrays of which one does not have a static graph's dims."""
    for tensor, array in zip(description.inputs, arrays, strict=True):
        if array.shape != tensor.dims:
            return _request(
                f"input {tensor.name} has the shape {list(array.shape)}; the model was built for {list(tensor.dims)}"
            )
    return _request("the shapes are not those that the model was built for")


def no_such_gear(description: GraphDescription, arrays: Sequence[Array]) -> DeviceFault:
    """The fault for arrays whose joint shape is no gear; it names the gears that exist."""
    given = _shown(description.inputs, tuple(array.shape for array in arrays), description)
    gears = [
        _shown(description.inputs, tuple(gear[tensor.name] for tensor in description.inputs), description)
        for gear in description.gears
    ]
    shown = "; ".join(gears[:_MOST_GEARS_SHOWN])
    more = f"; and {len(gears) - _MOST_GEARS_SHOWN} more" if len(gears) > _MOST_GEARS_SHOWN else ""
    return _request(f"no gear for {given}; this model was built for: {shown}{more}")


def check_ranges(description: GraphDescription, arrays: Sequence[Array]) -> None:
    """Check shapes against the ranges of a range graph.

    Raises:
        DeviceFault: ``REQUEST``, saying which input, axis and range.
    """
    for tensor, array in zip(description.inputs, arrays, strict=True):
        if array.ndim != len(tensor.dims):
            raise _request(
                f"input {tensor.name} has the shape {list(array.shape)}; the model takes {len(tensor.dims)} dims, "
                f"{_range_text(tensor)}"
            )
        for axis, (size, fixed) in enumerate(zip(array.shape, tensor.dims, strict=True)):
            low, high = _bounds(tensor, axis, fixed)
            if size < low or (high != UNBOUNDED and size > high):
                raise _request(
                    f"input {tensor.name} has the shape {list(array.shape)}; axis {axis} must be "
                    f"{_one_range(low, high)} (the model was built for {_range_text(tensor)})"
                )


def element_count(dims: Sequence[int]) -> int:
    """Product of ``dims``, 1 for a scalar."""
    count = 1
    for dim in dims:
        count *= dim
    return count


def byte_count(dims: Sequence[int], dtype: np.dtype[np.generic]) -> int:
    """Bytes of a tensor of known dims."""
    return element_count(dims) * dtype.itemsize


def _bounds(tensor: TensorInfo, axis: int, fixed: int) -> tuple[int, int]:
    if tensor.ranges:
        return tensor.ranges[axis]
    return (fixed, fixed) if fixed != -1 else (0, UNBOUNDED)


def _range_text(tensor: TensorInfo) -> str:
    parts = (_one_range(*_bounds(tensor, axis, fixed)) for axis, fixed in enumerate(tensor.dims))
    return f"[{', '.join(parts)}]"


def _one_range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or more" if high == UNBOUNDED else f"{low} to {high}"


def _shown(inputs: Sequence[TensorInfo], shapes: Shapes, description: GraphDescription) -> str:
    """Shapes of the inputs that vary, or of all where one of the fixed ones is wrong."""
    varying = [index for index, tensor in enumerate(inputs) if -1 in tensor.dims]
    fixed_right = all(shapes[index] == inputs[index].dims for index in range(len(inputs)) if index not in varying)
    picked = varying if fixed_right and description.gears else range(len(inputs))
    return " ".join(f"{inputs[index].name} {list(shapes[index])}" for index in picked)


def _request(problem: str) -> DeviceFault:
    return DeviceFault("request", 0, Action.REQUEST, problem)
