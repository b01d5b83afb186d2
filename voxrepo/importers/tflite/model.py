"""A TensorFlow Lite file as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.importers.requirements import require
from voxrepo_contract.errors import ConfigError, ConversionRefused

Array = npt.NDArray[Any]

MAX_FILE_BYTES = 1 << 30
_IDENTIFIER = b"TFL3"
_OPTIONS = (
    "AdjX", "AdjY", "Alpha", "Axis", "Beta", "BeginMask", "DilationHFactor", "DilationWFactor", "EllipsisMask",
    "EndMask", "FusedActivationFunction", "KeepDims", "Mode", "NewAxisMask", "Padding", "ShrinkAxisMask", "StrideH",
    "StrideW",
)  # fmt: skip
_DTYPES: dict[str, npt.DTypeLike] = {
    "FLOAT32": np.float32,
    "INT32": np.int32,
    "INT64": np.int64,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}


@dataclass(frozen=True)
class Quantisation:
    """``real = (stored - zero_point) * scale``, with one scale for all or one for each slice of ``axis``."""

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int

    def dequantise(self, stored: Array) -> npt.NDArray[np.float32]:
        """Real values, FP32."""
        scale, zero = self.scale, self.zero_point
        if scale.size > 1:
            shape = [-1 if axis == self.axis else 1 for axis in range(stored.ndim)]
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        return ((stored.astype(np.float32) - zero.astype(np.float32)) * scale).astype(np.float32)

    def quantise(self, real: Array) -> npt.NDArray[np.int8]:
        """Stored values, INT8, of one scale."""
        stored = np.rint(real / self.scale[0]) + self.zero_point[0]
        clipped: npt.NDArray[np.int8] = np.clip(stored, -128, 127).astype(np.int8)
        return clipped


@dataclass(frozen=True)
class Tensor:
    """One tensor.

    Attributes:
        name: in the file; for messages only.
        dtype: type of the stored values.
        shape: as written; -1 where the file says that the size varies.
        data: the value of a constant.
        quantisation: of integer tensors that stand for real ones.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: Array | None
    quantisation: Quantisation | None


@dataclass(frozen=True)
class Operator:
    """One operator; ``options`` are the file's own, by their names there."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> int:
        """The first output."""
        return self.outputs[0]


@dataclass(frozen=True)
class TfliteModel:
    """The main subgraph of a file.

    Attributes:
        tensors: by their number.
        operators: each after its producers.
        inputs: numbers of the input tensors.
        outputs: numbers of the output tensors.
    """

    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def producers(self) -> dict[int, Operator]:
        """The operator that makes each computed tensor."""
        return {output: operator for operator in self.operators for output in operator.outputs}

    def consumers(self) -> dict[int, list[Operator]]:
        """The operators that read each tensor."""
        found: dict[int, list[Operator]] = {}
        for operator in self.operators:
            for tensor in dict.fromkeys(operator.inputs):
                found.setdefault(tensor, []).append(operator)
        return found

    def of_kind(self, kind: str) -> list[Operator]:
        """All operators of a kind, in order."""
        return [operator for operator in self.operators if operator.kind == kind]

    def real(self, tensor: int) -> Array | None:
        """The value of a constant, dequantised; ``None`` if it is computed."""
        entry = self.tensors[tensor]
        if entry.data is None or entry.quantisation is None:
            return entry.data
        return entry.quantisation.dequantise(entry.data)

    def with_identities(self, passed: Mapping[int, int]) -> TfliteModel:
        """The same model where some tensors are copies of others.

        Args:
            passed: for the first output of an operator, the tensor that it shall equal.
        """
        operators = tuple(
            replace(operator, kind="IDENTITY", inputs=(passed[operator.output],), options={})
            if operator.output in passed
            else operator
            for operator in self.operators
        )
        return replace(self, operators=operators)


def read_tflite(file: Path) -> TfliteModel:
    """Read a TensorFlow Lite file.

    Raises:
        ConfigError: it cannot be read, or the package that knows its format is not installed.
        ConversionRefused: it is not such a file, or has more than one subgraph.
    """
    require("tflite", "reading a TensorFlow Lite file")
    import tflite

    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if raw[4:8] != _IDENTIFIER or len(raw) > MAX_FILE_BYTES:
        raise ConversionRefused(f"{file}: not a TensorFlow Lite file")
    try:
        model = tflite.Model.GetRootAs(raw, 0)
        if model.SubgraphsLength() == 0:
            raise ConversionRefused(f"{file}: a TensorFlow Lite file without a graph")
        if model.SubgraphsLength() != 1:
            raise ConversionRefused(f"{file}: {model.SubgraphsLength()} subgraphs; one is supported")
        graph = model.Subgraphs(0)
        kinds = _names(tflite.BuiltinOperator)
        types = _names(tflite.TensorType)
        return TfliteModel(
            tensors=tuple(_tensor(model, graph.Tensors(i), types) for i in range(graph.TensorsLength())),
            operators=tuple(
                _operator(tflite, model, graph.Operators(i), kinds) for i in range(graph.OperatorsLength())
            ),
            inputs=tuple(int(i) for i in graph.InputsAsNumpy()),
            outputs=tuple(int(i) for i in graph.OutputsAsNumpy()),
        )
    except ConversionRefused:
        raise
    except Exception as error:  # a damaged flat buffer fails in struct, numpy or the package itself
        raise ConversionRefused(f"{file}: a damaged TensorFlow Lite file ({type(error).__name__}: {error})") from error


def _names(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def _tensor(model: Any, tensor: Any, types: Mapping[int, str]) -> Tensor:
    written = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else tensor.ShapeAsNumpy()
    # a scalar's shape is not an array but 0
    shape = () if isinstance(written, int) else tuple(int(size) for size in written)
    stored = _DTYPES.get(types.get(tensor.Type(), ""))
    if stored is None:
        raise ConversionRefused(f"tensors of type {types.get(tensor.Type(), tensor.Type())} are not supported")
    dtype = np.dtype(stored)
    buffer = model.Buffers(tensor.Buffer())
    data: Array | None = None
    if buffer.DataLength():
        data = buffer.DataAsNumpy().view(dtype).reshape(shape)
    name = (tensor.Name() or b"").decode("utf-8", "replace")
    return Tensor(name, dtype, shape, data, _quantisation(tensor.Quantization()))


def _quantisation(entry: Any) -> Quantisation | None:
    if entry is None or not entry.ScaleLength():
        return None
    return Quantisation(
        np.array(entry.ScaleAsNumpy(), np.float32),
        np.array(entry.ZeroPointAsNumpy(), np.int64),
        int(entry.QuantizedDimension()),
    )


def _operator(tflite: Any, model: Any, operator: Any, kinds: Mapping[int, str]) -> Operator:
    code = model.OperatorCodes(operator.OpcodeIndex())
    # files from before 2020 have the number in the older, narrower field
    kind = kinds.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "unknown")
    if kind == "CUSTOM":
        kind = (code.CustomCode() or b"CUSTOM").decode("utf-8", "replace")
    inputs = tuple(int(operator.Inputs(i)) for i in range(operator.InputsLength()))
    outputs = tuple(int(operator.Outputs(i)) for i in range(operator.OutputsLength()))
    return Operator(kind, inputs, outputs, dict(_options(tflite, operator)))


def _options(tflite: Any, operator: Any) -> Iterator[tuple[str, Any]]:
    table = operator.BuiltinOptions()
    if table is None:
        return
    options = getattr(tflite, _names(tflite.BuiltinOptions)[operator.BuiltinOptionsType()])()
    options.Init(table.Bytes, table.Pos)
    for name in _OPTIONS:
        read = getattr(options, name, None)
        if read is not None:
            yield name, read()
    if hasattr(options, "SqueezeDimsAsNumpy"):
        yield "SqueezeDims", tuple(int(axis) for axis in np.atleast_1d(options.SqueezeDimsAsNumpy()))
