"""Pure: protobuf messages from bytes and to bytes; responses with large tensors faster than protobuf does it.

Protobuf's encoder takes about 0.5 ms for ten seconds of audio, ten times what the copy costs, because it builds the
message back to front in a growing buffer. The tensors are therefore appended to the encoded rest of the message; the
order of fields carries no meaning in protobuf.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from voxrepo_contract.errors import InvalidArgument

# (field number << 3) | 2 for a field with a length
_RAW_OUTPUT_CONTENTS = bytes([6 << 3 | 2])
_INFER_RESPONSE = bytes([2 << 3 | 2])


def parsed(kind: Any, raw: bytes) -> Any:
    """Parse a request message.

    Raises:
        InvalidArgument: the bytes are no such message.
    """
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise InvalidArgument(f"the message is not a valid {kind.DESCRIPTOR.name}") from error


def varint(value: int) -> bytes:
    """Protobuf's encoding of a non-negative integer."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _parts(response: Any) -> list[bytes]:
    raw = list(response.raw_output_contents)
    del response.raw_output_contents[:]
    parts = [response.SerializeToString()]
    for tensor in raw:
        parts += (_RAW_OUTPUT_CONTENTS, varint(len(tensor)), tensor)
    return parts


def serialize_response(response: Any) -> bytes:
    """A ``ModelInferResponse`` as bytes. The message loses its raw tensors."""
    return b"".join(_parts(response))


def serialize_stream_response(response: Any) -> bytes:
    """A ``ModelStreamInferResponse`` that holds ``response``, as bytes. The message loses its raw tensors."""
    parts = _parts(response)
    return b"".join((_INFER_RESPONSE, varint(sum(map(len, parts))), *parts))
