"""Reading any ONNX graph of a voice: its tensors, and a clear refusal of what cannot be one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import onnx
import onnxruntime as ort
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

from voxrepo.importers.graph import opset_of
from voxrepo.importers.onnx_file import MAX_FILE_BYTES
from voxrepo.importers.onnx_run import open_session
from voxrepo_contract.errors import ConfigError, ConversionRefused

MIN_OPSET = 12
"""Since operator set 12 the larger of two whole numbers can be had, which the graphs that are put around it rely on."""
_NEWEST_KNOWN_OPSET = 40

INT_TYPES = frozenset({TensorProto.INT64, TensorProto.INT32})
FLOAT_TYPES = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph; dims are ``None`` where they vary or are not told."""

    name: str
    elem_type: int
    dims: tuple[int | None, ...]

    @property
    def is_int(self) -> bool:
        """Whether it holds whole numbers."""
        return self.elem_type in INT_TYPES

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers."""
        return self.elem_type in FLOAT_TYPES

    def __str__(self) -> str:
        shape = ", ".join("?" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name!r} ({TensorProto.DataType.Name(self.elem_type)} [{shape}])"


@dataclass(frozen=True)
class Source:
    """A graph and what it says of itself.

    Attributes:
        file: it was read from.
        model: with all its weights.
        inputs: that are not constants.
        outputs: of the graph.
        metadata: that the exporter wrote beside it.
    """

    file: Path
    model: onnx.ModelProto
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    metadata: dict[str, str]

    @property
    def opset(self) -> int:
        """Version of the default operator set."""
        return opset_of(self.model)

    def described(self) -> str:
        """Inputs and outputs, for messages."""
        return f"inputs {', '.join(map(str, self.inputs))}; outputs {', '.join(map(str, self.outputs))}"


@lru_cache
def newest_opset() -> int:
    """The newest operator set that the installed onnxruntime runs."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "probe",
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, [1])],
    )
    for opset in range(_NEWEST_KNOWN_OPSET, MIN_OPSET, -1):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        try:
            ort.InferenceSession(model.SerializeToString(), _quiet(), providers=["CPUExecutionProvider"])
        except Exception:  # noqa: S112 - the runtime has no public base class for its errors
            continue
        return opset
    return MIN_OPSET


def _quiet() -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def read_source(file: Path, what: str) -> Source:
    """Read a graph.

    Args:
        file: of it.
        what: ``acoustic graph`` or ``vocoder``, for messages.

    Raises:
        ConfigError: the file is missing or cannot be read.
        ConversionRefused: it is no ONNX graph, its weights are missing, or its operators are too new or too old.
    """
    try:
        size_bytes = file.stat().st_size
        if not file.is_file():
            raise ConfigError(f"this is not a file; give the {what} as an .onnx file", file=file)
        if size_bytes > MAX_FILE_BYTES:
            raise ConversionRefused(f"{file}: {size_bytes} bytes; an ONNX file cannot exceed {MAX_FILE_BYTES}")
        model = onnx.load(file, format="protobuf", load_external_data=False)
    except FileNotFoundError as error:
        raise ConfigError(f"no such file; give the {what} as an .onnx file", file=file) from error
    except DecodeError as error:
        raise ConversionRefused(f"{file}: not an ONNX file; give the {what} as an .onnx file") from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    opset = opset_of(model)
    if not model.graph.node or not opset:
        raise ConversionRefused(f"{file}: not an ONNX file, or one without a graph; give the {what} as an .onnx file")
    if not MIN_OPSET <= opset <= newest_opset():
        way = "install a newer onnxruntime, or export it" if opset > MIN_OPSET else "export it"
        raise ConversionRefused(
            f"{file}: the graph uses operator set {opset}, and {MIN_OPSET} to {newest_opset()} run here; {way} with "
            "opset_version=17"
        )
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(file.parent))
    except Exception as error:  # onnx raises its checker's errors, OSError and ValueError here
        raise ConversionRefused(
            f"{file}: weights are in a separate file that cannot be read ({_first_line(error)}); keep it beside the "
            "graph, under the name that the graph says"
        ) from error
    for tensor in model.graph.initializer:
        tensor.ClearField("external_data")
        tensor.data_location = TensorProto.DEFAULT
    constants = {tensor.name for tensor in model.graph.initializer}
    return Source(
        file,
        model,
        tuple(_tensor(value) for value in model.graph.input if value.name not in constants),
        tuple(_tensor(value) for value in model.graph.output),
        {entry.key: entry.value for entry in model.metadata_props},
    )


def open_source(source: Source) -> ort.InferenceSession:
    """A session of one thread on a graph.

    Raises:
        ConversionRefused: onnxruntime does not take it.
    """
    try:
        return open_session(source.model)
    except Exception as error:  # the runtime has no public base class for its errors
        raise ConversionRefused(f"{source.file}: onnxruntime does not run this graph: {_first_line(error)}") from error


def embedding_rows(source: Source, ids: str) -> int | None:
    """Rows of the table that an input of ids selects from, ``None`` if that cannot be seen."""
    tables = {tensor.name: tensor.dims for tensor in source.model.graph.initializer if len(tensor.dims) == 2}
    reached = {ids}
    for node in source.model.graph.node:
        if node.op_type in {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape"} and node.input[0] in reached:
            reached.update(node.output)
        if node.op_type == "Gather" and node.input[1] in reached and node.input[0] in tables:
            return int(tables[node.input[0]][0])
    return None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    kind = value.type.tensor_type
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim)
    return Tensor(value.name, kind.elem_type, dims)
