"""Strict JSON: what Python's parser would let pass silently is an error here."""

from __future__ import annotations

import json
from typing import Any

from voxrepo_contract.errors import InvalidArgument

MAX_BYTES = 8 * 1024 * 1024
"""Three bytes of JSON (``[],``) can take seventy in memory, and parsing holds up the process. The longest text that a
voice may allow fits, all of it escaped."""


def _no_constant(name: str) -> Any:
    raise InvalidArgument(f"the JSON body holds {name}; JSON has no such number")


def _no_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidArgument(f"the JSON body gives the key {key[:64]!r} twice; give it once")
            seen.add(key)
    return result


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Args:
        raw: UTF-8 text.

    Raises:
        InvalidArgument: too long, not UTF-8, not JSON, nested too deep, NaN, a repeated key, or not an object.
    """
    if len(raw) > MAX_BYTES:
        raise InvalidArgument(f"the JSON has {len(raw)} bytes; the limit is {MAX_BYTES}: send tensors as binary data")
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_repeated_keys)
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"the JSON body is not valid UTF-8: byte {error.start} is 0x{raw[error.start]:02x}"
        ) from error
    except json.JSONDecodeError as error:
        what = "the body is empty; a JSON object is needed" if not raw.strip() else f"the body is not JSON: {error}"
        raise InvalidArgument(what) from error
    except RecursionError as error:
        raise InvalidArgument("the JSON body is nested too deep") from error
    except ValueError as error:  # integers beyond the interpreter's digit limit
        raise InvalidArgument("the JSON body holds an integer with too many digits") from error
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a string", bool: "a bool", type(None): "null"}.get(type(value), "a number")
        raise InvalidArgument(f"the JSON body is {kind}; an object is needed")
    return value


def dump(value: Any) -> bytes:
    """Compact UTF-8 JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
