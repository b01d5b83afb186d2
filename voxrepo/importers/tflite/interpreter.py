"""Running a TensorFlow Lite model operator by operator, in numpy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.importers.tflite.kernels import KERNELS
from voxrepo.importers.tflite.model import Operator, TfliteModel
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]


def run(model: TfliteModel, feeds: Mapping[int, Array], keep: Collection[int] | None = None) -> dict[int, Array]:
    """Values of tensors.

    Args:
        model: to run; its random operators must have been replaced.
        feeds: values of the inputs, by number.
        keep: which tensors are wanted; ``None`` wants all, which takes memory.

    Raises:
        ConversionRefused: an operator is not known, or fails.
    """
    values: dict[int, Array] = {
        number: real for number in _constants(model) if (real := model.real(number)) is not None
    }
    values.update(feeds)
    last_use = {number: at for at, operator in enumerate(model.operators) for number in operator.inputs}
    for at, operator in enumerate(model.operators):
        try:
            made = _compute(model, operator, values)
        except (
            ArithmeticError,
            IndexError,
            KeyError,
            LookupError,
            NotImplementedError,
            TypeError,
            ValueError,
        ) as error:
            name = model.tensors[operator.output].name
            raise ConversionRefused(f"the operator {operator.kind} ({name}) does not run: {error}") from error
        values[operator.output] = made
        if keep is not None:
            for number in operator.inputs:
                if last_use[number] == at and number not in keep:
                    values.pop(number, None)
    return values if keep is None else {number: values[number] for number in keep}


def _constants(model: TfliteModel) -> list[int]:
    return [number for number, tensor in enumerate(model.tensors) if tensor.data is not None]


def _compute(model: TfliteModel, operator: Operator, values: Mapping[int, Array]) -> Array:
    inputs = [None if number < 0 else values[number] for number in operator.inputs]
    output = model.tensors[operator.output]
    first: Any = inputs[0] if inputs else None
    if operator.kind == "CAST":
        return np.asarray(first.astype(output.dtype))
    if operator.kind == "DEQUANTIZE":
        # constants, and what is gathered from them, are real numbers already
        quantisation = model.tensors[operator.inputs[0]].quantisation
        return first if first.dtype == np.float32 or quantisation is None else quantisation.dequantise(first)
    if operator.kind == "QUANTIZE":
        if output.quantisation is None:
            raise ValueError("it has no scale")
        return output.quantisation.quantise(first)
    kernel = KERNELS.get(operator.kind)
    if kernel is None:
        raise NotImplementedError("it is not known here")
    return np.asarray(kernel(inputs, operator.options))
