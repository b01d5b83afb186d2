"""Running a graph on the CPU: one thread, so that results never depend on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from acl.emulation.dtypes import NUMPY_OF_NAME
from voxrepo_contract.emulated_om import EmulatedOm, OmTensor
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.ort_types import ORT_DTYPES

Array = npt.NDArray[Any]
Dims = tuple[int, ...]

_ORT_TYPES = {**ORT_DTYPES, "tensor(bfloat16)": "BF16"}
AIPP_INPUT = "ascend_dynamic_aipp_data"


class GraphError(Exception):
    """The graph failed on these inputs, as a kernel would fail on the device."""


def ramp(dims: Dims, dtype: np.dtype[Any]) -> Array:
    """A finite, audible stand-in for an output that was not computed: 0 to 15 sixteenths, or 0 to 15 for integers."""
    steps = np.arange(int(np.prod(dims)), dtype=np.int64) % 16
    values = steps / 16 if dtype.kind == "f" else steps % 2 if dtype.kind == "b" else steps
    return values.astype(dtype).reshape(dims)


class GraphRunner:
    """A graph, ready to run.

    Raises:
        ConfigError: the graph is not sound, or its tensors are not those of the header.
    """

    def __init__(self, model: EmulatedOm, *, compute: bool) -> None:
        self._header = model.header
        self._compute = compute
        self._ramps: dict[tuple[Dims, ...], list[Array]] = {}
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        # shapes change from run to run, a remembered pattern would never fit
        options.enable_mem_pattern = False
        options.log_severity_level = 4
        try:
            self._session = ort.InferenceSession(model.onnx, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ConfigError(f"its graph cannot be loaded: {_first_line(error)}") from error
        self._names = [tensor.name for tensor in self._header.inputs if tensor.name != AIPP_INPUT]
        _check(self._header.inputs, self._session.get_inputs(), "input")
        _check(self._header.outputs, self._session.get_outputs(), "output")
        self._output_names = [tensor.name for tensor in self._header.outputs]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs in the order of the header, C-contiguous.

        Raises:
            GraphError: a kernel refused the inputs.
        """
        shapes = tuple(array.shape for array in inputs)
        if not self._compute and shapes in self._ramps:
            return self._ramps[shapes]
        feeds = {
            tensor.name: array
            for tensor, array in zip(self._header.inputs, inputs, strict=True)
            if tensor.name != AIPP_INPUT
        }
        try:
            results = self._session.run(self._output_names, feeds)
        except Exception as error:
            raise GraphError(_first_line(error)) from error
        if not self._compute:
            # shapes are learnt from one true run
            self._ramps[shapes] = [ramp(result.shape, result.dtype) for result in results]
            return self._ramps[shapes]
        return [np.ascontiguousarray(result) for result in results]

    def output_dims(self, inputs: Sequence[Dims]) -> list[Dims]:
        """Output dims at these input dims, from a run on zeros.

        Raises:
            GraphError: the graph cannot be run on zeros.
        """
        zeros = [
            np.zeros(dims, NUMPY_OF_NAME[tensor.dtype])
            for tensor, dims in zip(self._header.inputs, inputs, strict=True)
        ]
        return [array.shape for array in self.run(zeros)]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__


def _check(declared: Sequence[OmTensor], found: Sequence[Any], role: str) -> None:
    actual = {tensor.name: tensor for tensor in found}
    for tensor in declared:
        if tensor.name == AIPP_INPUT:
            continue
        if tensor.name not in actual:
            raise ConfigError(f"its graph has no {role} {tensor.name!r}, which its header declares")
        dtype = _ORT_TYPES.get(actual[tensor.name].type, actual[tensor.name].type)
        if dtype != tensor.dtype:
            raise ConfigError(f"{role} {tensor.name!r} is {dtype} in the graph and {tensor.dtype} in the header")
    if role == "input":
        undeclared = sorted(set(actual) - {tensor.name for tensor in declared})
        if undeclared:
            raise ConfigError(f"its graph needs the input {undeclared[0]!r}, which its header does not declare")
