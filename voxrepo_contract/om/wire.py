"""Just enough of the protobuf wire format to find a few fields in a large message without reading all of it.

Nothing here recurses: :func:`fields` lists one level, and callers go down a fixed number of levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from voxrepo_contract.om.source import Source, printable

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; 3 and 4 (groups) are long obsolete and not written by any tool that makes OM files."""

_MAX_VARINT_BYTES = 10
_MAX_TAG_AND_LENGTH_BYTES = 2 * _MAX_VARINT_BYTES
_MAX_STRING_BYTES = 64 * 1024
_MAX_LIST_ITEMS = 65_536
MAX_NAME_BYTES = 4096
_INT64_MIN_AS_U64 = 1 << 63


class Region(NamedTuple):
    """A part of the file: a message, a string or a packed list."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return self.end - self.start


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: field number.
        wire_type: how it is stored.
        value: the number of a ``VARINT``, 0 otherwise.
        region: the content of ``BYTES``, the bytes of the others.
    """

    number: int
    wire_type: int
    value: int
    region: Region


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Value and position after it; None if it does not end within ``data`` or within 10 bytes."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(data):
            return None
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    return None


def fields(source: Source, message: Region, what: str) -> Iterator[Field]:
    """The fields of a message, in order, contents unread.

    Raises:
        ConfigError: the message does not follow the wire format.
    """
    at = message.start
    while at < message.end:
        source.step(at)
        peek = source.read(at, min(_MAX_TAG_AND_LENGTH_BYTES, message.end - at), what)
        tag = _varint(peek, 0)
        if tag is None or not 0 < tag[0] >> 3 < 1 << 29:
            source.refuse(f"{what}: no field begins here; the file is damaged", at)
        number, wire_type, after_tag = tag[0] >> 3, tag[0] & 7, tag[1]
        value, begin, end = 0, at + after_tag, at
        if wire_type in (VARINT, BYTES):
            read = _varint(peek, after_tag)
            if read is None:
                source.refuse(f"{what}: field {number} has a number without an end; the file is damaged", at)
            if wire_type == VARINT:
                value, end = read[0], at + read[1]
            else:
                begin, end = at + read[1], at + read[1] + read[0]
        elif wire_type == FIXED64:
            end = begin + 8
        elif wire_type == FIXED32:
            end = begin + 4
        else:
            source.refuse(f"{what}: field {number} is of wire type {wire_type}, which is not used here; damaged", at)
        if end > message.end:
            source.refuse(f"{what}: field {number} reaches {end - message.end} bytes too far; the file is damaged", at)
        yield Field(number, wire_type, value, Region(begin, end))
        at = end


def text(source: Source, field: Field, what: str, most_bytes: int = _MAX_STRING_BYTES) -> str:
    """A field as text that can be shown, see :func:`printable`.

    Raises:
        ConfigError: it is longer than any name or command line is.
    """
    if field.region.size_bytes > most_bytes:
        source.refuse(f"{what} is {field.region.size_bytes} bytes long; the file is damaged", field.region.start)
    return printable(source.read(field.region.start, field.region.size_bytes, what))


def signed(value: int) -> int:
    """An ``int64`` from its 64 bits."""
    return value - (1 << 64) if value >= _INT64_MIN_AS_U64 else value


def numbers(source: Source, field: Field, what: str) -> list[int]:
    """The ``int64`` values of one occurrence of a repeated field: a single one, or a packed list.

    Raises:
        ConfigError: it is neither, or longer than any list of sizes is.
    """
    if field.wire_type == VARINT:
        return [signed(field.value)]
    if field.wire_type != BYTES:
        source.refuse(f"{what}: is not a list of whole numbers; the file is damaged", field.region.start)
    if field.region.size_bytes > _MAX_LIST_ITEMS * _MAX_VARINT_BYTES:
        source.refuse(f"{what}: the list is {field.region.size_bytes} bytes long; damaged", field.region.start)
    data = source.read(field.region.start, field.region.size_bytes, what)
    found: list[int] = []
    at = 0
    while at < len(data):
        read = _varint(data, at)
        if read is None:
            source.refuse(f"{what}: the list ends inside a number; the file is damaged", field.region.start + at)
        found.append(signed(read[0]))
        at = read[1]
    source.step(field.region.start, len(found))
    return found
