"""The tensors of an ONNX file, read from the file itself: no ``onnx`` package, no weights in memory.

A file may come from anywhere, so it is read through the same bounded reader as OM files. Field numbers are those of
``onnx.proto`` (IR version 13); they never change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.om.sniff import HEAD_BYTES, kind_of
from voxrepo_contract.om.source import Source
from voxrepo_contract.om.wire import BYTES, Field, Region, fields, signed, text

MAX_TENSORS = 4096
MAX_RANK = 64

_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 5, 11, 12
_TENSOR_NAME, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 8, 13, 14

DTYPES = {
    1: "FP32",
    2: "UINT8",
    3: "INT8",
    4: "UINT16",
    5: "INT16",
    6: "INT32",
    7: "INT64",
    8: "BYTES",
    9: "BOOL",
    10: "FP16",
    11: "FP64",
    12: "UINT32",
    13: "UINT64",
}
"""Open Inference Protocol names by ONNX element type."""
_OTHER_DTYPES = {14: "COMPLEX64", 15: "COMPLEX128", 16: "BFLOAT16", 17: "FLOAT8E4M3FN", 19: "FLOAT8E5M2", 22: "INT4"}
_TYPE_KINDS = {4: "a sequence", 5: "a map", 7: "an opaque value", 8: "a sparse tensor", 9: "an optional value"}

_NOT_ONNX = {
    "om": "is an OM file for an NPU; name it .om",
    "emulated_om": "is a model for voxrepo's emulator; name it .om",
    "zip": "is a ZIP file (a PyTorch file is one), not an ONNX model; export the model to ONNX",
    "pickle": "is a Python pickle, not an ONNX model; it is never unpickled, since that can run any program",
    "pointer": "is only a pointer to a file kept elsewhere (Git LFS or git-annex); fetch the file itself",
    "text": "is plain text, not an ONNX model; get the file itself",
    "empty": "the file is empty; export or copy it again",
}


@dataclass(frozen=True)
class OnnxTensor:
    """An input or output of a graph.

    Attributes:
        name: its name.
        dtype: Open Inference Protocol name.
        dims: per axis a size, the name of an axis that varies, or None where the file says neither; None as a whole
            if the file gives no shape.
    """

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True)
class OnnxTensors:
    """What a caller must know of an ONNX file.

    Attributes:
        inputs: that a caller has to give; inputs with a default value are left out.
        outputs: all of them.
        external_files: files beside the graph that hold weights, as the graph names them.
    """

    inputs: tuple[OnnxTensor, ...]
    outputs: tuple[OnnxTensor, ...]
    external_files: tuple[str, ...]


@dataclass(frozen=True)
class _Type:
    kind: str = "of no type"
    """"" for a tensor, else what it is instead."""
    elem_type: int = 0
    dims: tuple[int | str | None, ...] | None = None


def read_onnx_tensors(path: Path) -> OnnxTensors:
    """Read the tensors of an ONNX file.

    Raises:
        ConfigError: it is not a whole ONNX file, or has tensors that no request can carry; the text says which.
    """
    with Source.open(path) as source:
        kind = kind_of(source.head(HEAD_BYTES))
        if kind in _NOT_ONNX:
            source.refuse(_NOT_ONNX[kind])
        graphs = [field.region for field in fields(source, Region(0, source.size_bytes), "the ONNX model")
                  if field.number == _MODEL_GRAPH and field.wire_type == BYTES]  # fmt: skip
        if len(graphs) != 1:
            source.refuse(f"is no ONNX model: it has {len(graphs)} graphs instead of one; export or copy it again")
        return _graph(source, graphs[0], path)


def _messages(source: Source, message: Region, what: str) -> Iterator[Field]:
    for field in fields(source, message, what):
        if field.wire_type == BYTES:
            yield field


def _graph(source: Source, graph: Region, path: Path) -> OnnxTensors:
    values: dict[int, list[tuple[str, _Type]]] = {_GRAPH_INPUT: [], _GRAPH_OUTPUT: []}
    constants: set[str] = set()
    external: dict[str, None] = {}
    has_nodes = False
    for field in _messages(source, graph, "the ONNX graph"):
        if field.number == _GRAPH_NODE:
            has_nodes = True
        elif field.number == _GRAPH_INITIALIZER:
            name, location = _initializer(source, field.region)
            constants.add(name)
            if location is not None:
                external[location] = None
        elif field.number in values:
            values[field.number].append(_value_info(source, field.region))
            if len(values[field.number]) > MAX_TENSORS:
                source.refuse(f"has more than {MAX_TENSORS} inputs or outputs; is this the right file?")
    # older files list their constants as inputs too
    inputs = [value for value in values[_GRAPH_INPUT] if value[0] not in constants]
    for what, found in (("operators", has_nodes), ("outputs", values[_GRAPH_OUTPUT])):
        if not found:
            source.refuse(f"its graph has no {what}; export or copy it again")
    return OnnxTensors(
        tuple(_tensor("input", name, kind, path) for name, kind in inputs),
        tuple(_tensor("output", name, kind, path) for name, kind in values[_GRAPH_OUTPUT]),
        tuple(external),
    )


def _initializer(source: Source, message: Region) -> tuple[str, str | None]:
    """Name of a constant, and the file its data lie in if that is another one."""
    name, location, is_external = "", "", False
    for field in fields(source, message, "a constant"):
        if field.number == _TENSOR_NAME:
            name = text(source, field, "the name of a constant")
        elif field.number == _TENSOR_LOCATION:
            is_external = field.value == 1
        elif field.number == _TENSOR_EXTERNAL:
            pair = {
                part.number: text(source, part, "where a constant lies")
                for part in _messages(source, field.region, "where a constant lies")
            }
            if pair.get(1) == "location":
                location = pair.get(2, "")
    return name, location if is_external else None


def _value_info(source: Source, message: Region) -> tuple[str, _Type]:
    name, kind = "", _Type()
    for field in _messages(source, message, "a tensor"):
        if field.number == 1:
            name = text(source, field, "the name of a tensor")
        elif field.number == 2:
            for option in _messages(source, field.region, "the type of a tensor"):
                if option.number == 1:
                    kind = _tensor_type(source, option.region)
                elif option.number in _TYPE_KINDS:
                    kind = _Type(_TYPE_KINDS[option.number])
    return name, kind


def _tensor_type(source: Source, message: Region) -> _Type:
    elem_type = 0
    dims: tuple[int | str | None, ...] | None = None
    for field in fields(source, message, "the type of a tensor"):
        if field.number == 1:
            elem_type = field.value
        elif field.number == 2 and field.wire_type == BYTES:
            axes = [axis for axis in _messages(source, field.region, "the shape of a tensor") if axis.number == 1]
            if len(axes) > MAX_RANK:
                source.refuse(f"a tensor has {len(axes)} axes; the limit is {MAX_RANK}", field.region.start)
            dims = tuple(_dim(source, axis.region) for axis in axes)
    return _Type("", elem_type, dims)


def _dim(source: Source, message: Region) -> int | str | None:
    found: int | str | None = None
    for field in fields(source, message, "an axis of a tensor"):
        if field.number == 1:
            size = signed(field.value)
            # exporters write -1 for a size that varies
            found = size if size >= 0 else None
        elif field.number == 2:
            found = text(source, field, "the name of an axis") or None
    return found


def _tensor(side: str, name: str, kind: _Type, path: Path) -> OnnxTensor:
    which = f"{side} {name!r}"
    if kind.kind:
        hint = "; scikit-learn models: convert them with the option zipmap=False" if "sequence" in kind.kind else ""
        raise ConfigError(f"{which} is {kind.kind}, and only tensors can be served{hint}", file=path)
    dtype = DTYPES.get(kind.elem_type)
    if dtype is None:
        number = _OTHER_DTYPES.get(kind.elem_type, f"number {kind.elem_type}")
        raise ConfigError(
            f"{which} has the element type {number}, which no request can carry; cast it in the graph to one of "
            f"{', '.join(DTYPES.values())}",
            file=path,
        )
    if kind.dims is not None and 0 in kind.dims:
        raise ConfigError(
            f"{which} has the shape {list(kind.dims)}, and no request can carry an axis of size 0; export the axis "
            "with its true size, or as one that varies",
            file=path,
        )
    return OnnxTensor(name, dtype, kind.dims)
