"""The emulator's own model file. It cannot be mistaken for an offline model of Huawei's, nor one of those for it.

Layout, little-endian::

    8 bytes   magic VOXEMUOM
    u32       format version, 1
    u32       length of the header in bytes
    ...       header, UTF-8 JSON object, see OmHeader
    ...       the ONNX graph
    32 bytes  SHA-256 of everything before

Standard library only: the device worker reads these files too, maybe under another Python than the server's.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from voxrepo_contract.errors import ConfigError

MAGIC: Final = b"VOXEMUOM"
FORMAT_VERSION: Final = 1
MAX_HEADER_BYTES: Final = 4 * 1024 * 1024

STATIC: Final = "static"
BATCH_GEARS: Final = "batch_gears"
DIMS_GEARS: Final = "dims_gears"
IMAGE_GEARS: Final = "image_gears"
RANGE: Final = "range"
KINDS: Final = (STATIC, BATCH_GEARS, DIMS_GEARS, IMAGE_GEARS, RANGE)
GEAR_KINDS: Final = (BATCH_GEARS, DIMS_GEARS, IMAGE_GEARS)
MIN_GEARS: Final = 2
MAX_GEARS: Final = 100
"""ATC's limits on the number of gears (E10035 to E10039)."""

ITEM_BYTES: Final[Mapping[str, int]] = {
    "BOOL": 1,
    "INT8": 1,
    "UINT8": 1,
    "INT16": 2,
    "UINT16": 2,
    "INT32": 4,
    "UINT32": 4,
    "INT64": 8,
    "UINT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
}
"""Bytes per element of the dtypes that a file may declare, by Open Inference Protocol name."""

_PREFIX = struct.Struct("<8sII")
_DIGEST_BYTES = 32
_SNIFFED_BYTES = 64


@dataclass(frozen=True)
class OmTensor:
    """An input or output.

    Attributes:
        name: as in the ONNX graph.
        dtype: Open Inference Protocol name.
        dims: sizes, -1 where it varies.
        ranges: for kind ``range`` the lowest and highest size of each axis, highest -1 if unbounded; else empty.
        format: memory layout, always ``ND``.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...] = ()
    format: str = "ND"


@dataclass(frozen=True)
class OmHeader:
    """What the converter wrote of a graph.

    Attributes:
        name: of the model.
        soc: chip it was built for, e.g. ``Ascend910B3``.
        kind: one of ``KINDS``.
        inputs: in the order of the graph, without the hidden gear input.
        outputs: in the order of the graph.
        gears: for gear kinds, each gear as input name -> dims, all inputs named.
        outputs_by_gear: same length as ``gears``, output name -> dims; empty where the converter did not know (the
            emulator then finds them by a trial run).
        input_order: names in the order of ATC's ``--input_shape``, in which a gear's dims are joined.
        precision: ``origin``, ``fp16``, ``mixed_float16`` ...
        cann_version: of the converter.
        opp_version: of the operator package; a range model runs with just this one.
        virtual_type: 1 if built for slices of a chip.
        weights_bytes: device memory for weights.
        work_bytes: device memory for intermediate results at the largest gear.
        unbounded_outputs: output sizes depend on values, so that no bound is known before a run.
        conversion: the command that made the file.
    """

    name: str
    soc: str
    kind: str
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    gears: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    outputs_by_gear: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    input_order: tuple[str, ...] = ()
    precision: str = "origin"
    cann_version: str = "8.2.RC1"
    opp_version: str = "8.2.RC1"
    virtual_type: int = 0
    weights_bytes: int = 0
    work_bytes: int = 0
    unbounded_outputs: bool = False
    conversion: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "name": self.name,
            "soc": self.soc,
            "kind": self.kind,
            "inputs": [_tensor_to_json(tensor) for tensor in self.inputs],
            "outputs": [_tensor_to_json(tensor) for tensor in self.outputs],
            "gears": [{name: list(dims) for name, dims in gear.items()} for gear in self.gears],
            "outputs_by_gear": [{name: list(dims) for name, dims in gear.items()} for gear in self.outputs_by_gear],
            "input_order": list(self.input_order or (tensor.name for tensor in self.inputs)),
            "precision": self.precision,
            "cann_version": self.cann_version,
            "opp_version": self.opp_version,
            "virtual_type": self.virtual_type,
            "weights_bytes": self.weights_bytes,
            "work_bytes": self.work_bytes,
            "unbounded_outputs": self.unbounded_outputs,
            "conversion": self.conversion,
        }


@dataclass(frozen=True)
class EmulatedOm:
    """A whole file."""

    header: OmHeader
    onnx: bytes = field(repr=False)


def write(path: Path, header: OmHeader, onnx: bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never half of it.

    Raises:
        ConfigError: the header contradicts itself.
    """
    _check(header, path)
    encoded = encode(header, onnx)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as stream:
            stream.write(encoded)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def encode(header: OmHeader, onnx: bytes) -> bytes:
    """The bytes of a file."""
    text = json.dumps(header.to_json(), ensure_ascii=False).encode("utf-8")
    body = _PREFIX.pack(MAGIC, FORMAT_VERSION, len(text)) + text + onnx
    return body + hashlib.sha256(body).digest()


def is_emulated_om(source: bytes | Path) -> bool:
    """Whether this is the start of an emulated OM.

    Raises:
        ConfigError: the file cannot be read.
    """
    return _head(source, len(MAGIC)) == MAGIC


def read_header(source: bytes | Path) -> OmHeader:
    """Read the header only; the checksum over the whole file is not checked.

    Raises:
        ConfigError: not an emulated OM (the text says what it is instead), or a damaged one.
    """
    file = source if isinstance(source, Path) else None
    header_bytes = _header_length(_head(source, _SNIFFED_BYTES), file)
    data = _head(source, _PREFIX.size + header_bytes)
    return _parse_header(data[_PREFIX.size :], header_bytes, file)


def read(source: bytes | Path) -> EmulatedOm:
    """Read a whole file and check its checksum.

    Raises:
        ConfigError: not an emulated OM (the text says what it is instead), or a damaged one.
    """
    file = source if isinstance(source, Path) else None
    data = _head(source, None)
    header_bytes = _header_length(data[:_SNIFFED_BYTES], file)
    end = len(data) - _DIGEST_BYTES
    if end < _PREFIX.size + header_bytes:
        raise ConfigError(f"cut off: {len(data)} bytes are fewer than its header announces; copy it again", file=file)
    if hashlib.sha256(data[:end]).digest() != data[end:]:
        raise ConfigError("damaged: its checksum does not match; copy it again or convert again", file=file)
    start = _PREFIX.size + header_bytes
    return EmulatedOm(_parse_header(data[_PREFIX.size : start], header_bytes, file), data[start:end])


def what_is_it(head: bytes) -> str:
    """A noun phrase for what a file that starts with ``head`` looks like, told by its magic alone; never unpickles."""
    if head.startswith(MAGIC):
        return "an emulated OM"
    if head.startswith(b"IMOD"):
        return "an offline model of Huawei's"
    if head.startswith(b"PK\x03\x04"):
        return "a ZIP file (an OM2 container, or a TorchScript model)"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself"
    if len(head) >= 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return "a Python pickle"
    # an ONNX file starts with field 1 (ir_version), then field 2 (producer name), 7 (graph) or 8 (opset)
    if len(head) >= 3 and head[0] == 0x08 and 1 <= head[1] <= 32 and head[2] in {0x12, 0x1A, 0x3A, 0x42}:
        return "an ONNX graph"
    if not head:
        return "an empty file"
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head[:_SNIFFED_BYTES]):
        return "a text file"
    return "a file of an unknown kind"


def _head(source: bytes | Path, count: int | None) -> bytes:
    if isinstance(source, bytes):
        return source if count is None else source[:count]
    try:
        with source.open("rb") as stream:
            return stream.read() if count is None else stream.read(count)
    except FileNotFoundError as error:
        raise ConfigError("the file is missing", file=source) from error
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=source) from error


def _header_length(head: bytes, file: Path | None) -> int:
    if not head.startswith(MAGIC):
        raise ConfigError(
            f"this is {what_is_it(head)}, not an emulated OM; the emulator runs only files that "
            "`voxrepo convert --target emulator` made",
            file=file,
        )
    if len(head) < _PREFIX.size:
        raise ConfigError("cut off within the first 16 bytes; copy it again", file=file)
    _, version, header_bytes = _PREFIX.unpack_from(head)
    if version != FORMAT_VERSION:
        raise ConfigError(
            f"written in format version {version}, this program reads {FORMAT_VERSION}; convert again", file=file
        )
    if header_bytes > MAX_HEADER_BYTES:
        raise ConfigError(f"damaged: a header of {header_bytes} bytes cannot be", file=file)
    return int(header_bytes)


def _parse_header(data: bytes, header_bytes: int, file: Path | None) -> OmHeader:
    if len(data) < header_bytes:
        raise ConfigError("cut off within its header; copy it again", file=file)
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"damaged: its header is not JSON ({error})", file=file) from error
    try:
        header = OmHeader(
            name=_typed(value, "name", str),
            soc=_typed(value, "soc", str),
            kind=_typed(value, "kind", str),
            inputs=_tensors(value, "inputs"),
            outputs=_tensors(value, "outputs"),
            gears=_gears(value, "gears"),
            outputs_by_gear=_gears({"outputs_by_gear": [], **value}, "outputs_by_gear"),
            input_order=tuple(_typed({"": name}, "", str) for name in _typed(value, "input_order", list)),
            precision=_typed(value, "precision", str),
            cann_version=_typed(value, "cann_version", str),
            opp_version=_typed(value, "opp_version", str),
            virtual_type=_typed(value, "virtual_type", int),
            weights_bytes=_typed(value, "weights_bytes", int),
            work_bytes=_typed(value, "work_bytes", int),
            unbounded_outputs=_typed(value, "unbounded_outputs", bool),
            conversion=_typed(value, "conversion", str),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"damaged: its header lacks a field, or one has a wrong type ({error})", file=file) from error
    _check(header, file)
    return header


def _typed(value: Mapping[str, Any], key: str, kind: type) -> Any:
    found = value[key]
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise TypeError(f"{key}: {kind.__name__} expected")
    return found


def _dims(value: Any) -> tuple[int, ...]:
    return tuple(_typed({"dims": dim}, "dims", int) for dim in value)


def _tensors(value: Mapping[str, Any], key: str) -> tuple[OmTensor, ...]:
    return tuple(
        OmTensor(
            name=_typed(item, "name", str),
            dtype=_typed(item, "dtype", str),
            dims=_dims(_typed(item, "dims", list)),
            ranges=tuple((low, high) for low, high in (_dims(pair) for pair in _typed(item, "ranges", list))),
            format=_typed(item, "format", str),
        )
        for item in _typed(value, key, list)
    )


def _gears(value: Mapping[str, Any], key: str) -> tuple[Mapping[str, tuple[int, ...]], ...]:
    return tuple({name: _dims(dims) for name, dims in gear.items()} for gear in _typed(value, key, list))


def _tensor_to_json(tensor: OmTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "format": tensor.format,
        "dims": list(tensor.dims),
        "ranges": [list(pair) for pair in tensor.ranges],
    }


def _check(header: OmHeader, file: Path | None) -> None:
    problem = _problem(header)
    if problem:
        raise ConfigError(f"its header contradicts itself: {problem}; convert again", file=file)


def _problem(header: OmHeader) -> str:
    if header.kind not in KINDS:
        return f"the kind {header.kind!r} is none of {', '.join(KINDS)}"
    if not header.inputs or not header.outputs:
        return "it has no inputs or no outputs"
    if min(header.weights_bytes, header.work_bytes) < 0:
        return "a size is negative"
    names = [tensor.name for tensor in header.inputs]
    if len(set(names)) != len(names):
        return "two inputs have one name"
    if header.input_order and sorted(header.input_order) != sorted(names):
        return "input_order does not name just the inputs"
    for tensor in (*header.inputs, *header.outputs):
        problem = _tensor_problem(tensor, header.kind)
        if problem:
            return f"{tensor.name!r} {problem}"
    varying = any(-1 in tensor.dims for tensor in header.inputs)
    if header.kind == STATIC and varying:
        return "it is static, yet an input has a size of -1"
    if header.kind not in GEAR_KINDS:
        return "it has gears, yet its kind has none" if header.gears else ""
    if not varying:
        return "it has gears, yet no input has a size of -1"
    return _gear_problem(header)


def _tensor_problem(tensor: OmTensor, kind: str) -> str:
    if tensor.dtype not in ITEM_BYTES:
        return f"has the unknown dtype {tensor.dtype!r}"
    if len(tensor.dims) > 128 or any(dim < -1 for dim in tensor.dims):
        return f"has the impossible dims {list(tensor.dims)}"
    if tensor.ranges and (kind != RANGE or len(tensor.ranges) != len(tensor.dims)):
        return "has ranges that do not go with its dims and kind"
    if any(low < 0 or (high != -1 and high < low) for low, high in tensor.ranges):
        return "has a range whose highest size is below its lowest"
    return ""


def _gear_problem(header: OmHeader) -> str:
    if not MIN_GEARS <= len(header.gears) <= MAX_GEARS:
        return f"{len(header.gears)} gears, {MIN_GEARS} to {MAX_GEARS} are allowed"
    if header.outputs_by_gear and len(header.outputs_by_gear) != len(header.gears):
        return "outputs_by_gear is not one entry per gear"
    for number, gear in enumerate(header.gears):
        problem = _fits_tensors(gear, header.inputs)
        if problem:
            return f"gear {number} {problem}"
    for number, gear in enumerate(header.outputs_by_gear):
        problem = _fits_tensors(gear, header.outputs)
        if problem:
            return f"outputs of gear {number}: it {problem}"
    return ""


def _fits_tensors(gear: Mapping[str, Sequence[int]], tensors: Sequence[OmTensor]) -> str:
    for tensor in tensors:
        dims = gear.get(tensor.name)
        if dims is None:
            return f"does not name {tensor.name!r}"
        fits = len(dims) == len(tensor.dims) and all(
            size >= 0 and declared in (-1, size) for size, declared in zip(dims, tensor.dims, strict=True)
        )
        if not fits:
            return f"gives {tensor.name!r} the dims {list(dims)}, declared are {list(tensor.dims)}"
    return ""
