"""Pure: tensors between JSON values and the protocol's raw little-endian bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from voxrepo_contract.errors import InvalidArgument

_NUMPY = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
_PREFIX = struct.Struct("<I")
_MAX_DEPTH = 16


def element_count(shape: Sequence[int]) -> int:
    """Product of the dimensions."""
    count = 1
    for dim in shape:
        count *= dim
    return count


def flatten(data: Any, name: str) -> list[Any]:
    """The elements of nested lists, in order; a scalar is one element.

    Raises:
        InvalidArgument: nested deeper than any tensor.
    """
    if not isinstance(data, list):
        return [data]
    depth = 0
    while any(isinstance(item, list) for item in data):
        depth += 1
        if depth > _MAX_DEPTH:
            raise InvalidArgument(f"tensor {name!r}: data is nested deeper than {_MAX_DEPTH} levels")
        flat: list[Any] = []
        for item in data:
            if isinstance(item, list):
                flat.extend(item)
            else:
                flat.append(item)
        data = flat
    return list(data)


def _encode_bytes(values: list[Any], name: str) -> bytes:
    parts: list[bytes] = []
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidArgument(f"tensor {name!r}: element {position} is not a string, as BYTES needs")
        try:
            raw = value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidArgument(
                f"tensor {name!r}: element {position} is not valid Unicode: "
                f"character {error.start} is half of a surrogate pair"
            ) from error
        parts.append(_PREFIX.pack(len(raw)) + raw)
    return b"".join(parts)


def _check_kinds(values: list[Any], dtype: np.dtype[Any], name: str, datatype: str) -> None:
    kinds = {"b": (bool,), "f": (int, float)}.get(dtype.kind, (int,))
    for position, value in enumerate(values):
        if not isinstance(value, kinds) or (isinstance(value, bool) and dtype.kind != "b"):
            wanted = {"b": "true or false", "f": "a number"}.get(dtype.kind, "a whole number")
            raise InvalidArgument(f"tensor {name!r}: element {position} is not {wanted}, as {datatype} needs")


def encode(values: list[Any], datatype: str, name: str) -> bytes:
    """JSON values as raw bytes.

    Args:
        values: flat elements.
        datatype: protocol name.
        name: tensor, for messages.

    Raises:
        InvalidArgument: an element of another kind or out of range, or a datatype that JSON cannot carry.
    """
    if datatype == "BYTES":
        return _encode_bytes(values, name)
    dtype = _NUMPY.get(datatype)
    if dtype is None:
        raise InvalidArgument(
            f"tensor {name!r}: datatype {datatype[:32]!r} cannot be sent as JSON; send it as binary data"
        )
    _check_kinds(values, dtype, name, datatype)
    if dtype.kind in "iu":
        bounds = np.iinfo(str(dtype))
        for position, value in enumerate(values):
            if not bounds.min <= value <= bounds.max:
                raise InvalidArgument(
                    f"tensor {name!r}: element {position} is out of range; "
                    f"{datatype} holds {bounds.min} to {bounds.max}"
                )
    try:
        with np.errstate(over="ignore"):  # too large for FP32 becomes inf here; range checks come later
            return np.asarray(values, dtype=dtype).tobytes()
    except OverflowError as error:
        raise InvalidArgument(f"tensor {name!r}: an element is out of range for {datatype}") from error


def split_bytes(raw: bytes, name: str) -> Iterator[bytes]:
    """Elements of a raw BYTES tensor.

    Raises:
        InvalidArgument: a length prefix is cut off or points beyond the end.
    """
    at = 0
    while at < len(raw):
        if at + _PREFIX.size > len(raw):
            raise InvalidArgument(f"tensor {name!r}: a length prefix is cut off at byte {at}")
        (length,) = _PREFIX.unpack_from(raw, at)
        at += _PREFIX.size
        if at + length > len(raw):
            raise InvalidArgument(f"tensor {name!r}: an element of {length} bytes at byte {at} is cut off")
        yield raw[at : at + length]
        at += length


def decode(raw: bytes, datatype: str, name: str) -> list[Any]:
    """Raw bytes as flat JSON values.

    Raises:
        InvalidArgument: the tensor cannot be written as JSON.
    """
    if datatype == "BYTES":
        try:
            return [element.decode("utf-8") for element in split_bytes(raw, name)]
        except UnicodeDecodeError as error:
            raise InvalidArgument(
                f"tensor {name!r} holds bytes that are not UTF-8, which JSON cannot carry; ask for it as binary data"
            ) from error
    dtype = _NUMPY.get(datatype)
    if dtype is None:
        raise InvalidArgument(f"tensor {name!r}: datatype {datatype} cannot be written as JSON; ask for binary data")
    values: list[Any] = np.frombuffer(raw, dtype=dtype).tolist()
    return values
