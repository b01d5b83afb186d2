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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from voxrepo_contract.emulated_header import (
    BATCH_GEARS,
    DIMS_GEARS,
    GEAR_KINDS,
    IMAGE_GEARS,
    ITEM_BYTES,
    KINDS,
    MAX_GEARS,
    MIN_GEARS,
    RANGE,
    STATIC,
    OmHeader,
    OmTensor,
    problem_of,
)
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.om.sniff import EMULATED_MAGIC, HEAD_BYTES, noun_of

__all__ = [
    "BATCH_GEARS",
    "DIMS_GEARS",
    "FORMAT_VERSION",
    "GEAR_KINDS",
    "IMAGE_GEARS",
    "ITEM_BYTES",
    "KINDS",
    "MAGIC",
    "MAX_GEARS",
    "MAX_HEADER_BYTES",
    "MIN_GEARS",
    "RANGE",
    "STATIC",
    "EmulatedOm",
    "OmHeader",
    "OmTensor",
    "encode",
    "read",
    "read_header",
    "write",
]

MAGIC: Final = EMULATED_MAGIC
FORMAT_VERSION: Final = 1
MAX_HEADER_BYTES: Final = 4 * 1024 * 1024

_PREFIX = struct.Struct("<8sII")
_DIGEST_BYTES = 32


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


def read_header(source: bytes | Path) -> OmHeader:
    """Read the header only; the checksum over the whole file is not checked.

    Raises:
        ConfigError: not an emulated OM (the text says what it is instead), or a damaged one.
    """
    file = source if isinstance(source, Path) else None
    header_bytes = _header_length(_head(source, HEAD_BYTES), file)
    data = _head(source, _PREFIX.size + header_bytes)
    return _parse_header(data[_PREFIX.size :], header_bytes, file)


def read(source: bytes | Path) -> EmulatedOm:
    """Read a whole file and check its checksum.

    Raises:
        ConfigError: not an emulated OM (the text says what it is instead), or a damaged one.
    """
    file = source if isinstance(source, Path) else None
    data = _head(source, None)
    header_bytes = _header_length(data[:HEAD_BYTES], file)
    end = len(data) - _DIGEST_BYTES
    if end < _PREFIX.size + header_bytes:
        raise ConfigError(f"cut off: {len(data)} bytes are fewer than its header announces; copy it again", file=file)
    if hashlib.sha256(data[:end]).digest() != data[end:]:
        raise ConfigError("damaged: its checksum does not match; copy it again or convert again", file=file)
    start = _PREFIX.size + header_bytes
    return EmulatedOm(_parse_header(data[_PREFIX.size : start], header_bytes, file), data[start:end])


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
            f"this is {noun_of(head)}, not an emulated OM; the emulator runs only files that "
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


def _check(header: OmHeader, file: Path | None) -> None:
    problem = problem_of(header)
    if problem:
        raise ConfigError(f"its header contradicts itself: {problem}; convert again", file=file)
