"""Server-sent events as the generate extension sends them, ``data: <JSON>`` and an empty line: no I/O."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo_client.errors import BadResponse
from voxrepo_client.protocol import InferAnswer

MAX_EVENT_BYTES = 64 << 20
"""Longest event that is taken; minutes of audio as JSON numbers stay below it."""


class EventReader:
    """Cuts a byte stream into events."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The data of the events that ``received`` completes; comments and other fields are left out.

        Raises:
            BadResponse: an event exceeds :data:`MAX_EVENT_BYTES`.
        """
        self._buffer += received
        complete: list[bytes] = []
        start = 0
        # only what is new is searched: the cost of an event does not grow with the square of its length
        while (end := self._buffer.find(b"\n", max(start, self._searched))) >= 0:
            line = bytes(self._buffer[start:end]).removesuffix(b"\r")
            start = end + 1
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                complete.append(b"\n".join(self._data))
                self._data = []
        del self._buffer[:start]
        self._searched = len(self._buffer)
        if self._searched + sum(map(len, self._data)) > MAX_EVENT_BYTES:
            raise BadResponse(f"the server sent an event of more than {MAX_EVENT_BYTES} bytes")
        return complete

    @property
    def is_between_events(self) -> bool:
        """Whether the bytes so far end with a whole event."""
        return not self._buffer and not self._data


def parse_event(data: bytes) -> dict[str, Any]:
    """The JSON object of an event.

    Raises:
        BadResponse: it is none.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadResponse(f"the server sent an event that is not JSON: {data[:80]!r}") from error
    if not isinstance(document, dict):
        raise BadResponse(f"the server sent an event that is not a JSON object: {data[:80]!r}")
    return document


def _integers(name: str, value: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    # the generate extension writes a single element without its list, and an empty tensor as an empty list
    try:
        wide = np.array(value if isinstance(value, list) else [value])
    except ValueError as error:
        raise BadResponse(f"the output {name!r} is not a flat array") from error
    if not wide.size:
        return np.zeros((1, 0), dtype)
    limits = np.iinfo(dtype)
    if wide.ndim != 1 or wide.dtype.kind != "i" or wide.min() < limits.min or wide.max() > limits.max:
        raise BadResponse(f"the output {name!r} does not hold {np.dtype(dtype)} numbers")
    return wide.astype(dtype)[np.newaxis]


def answer_of(document: dict[str, Any]) -> InferAnswer:
    """The response in an event: ``audio`` and ``sample_rate`` are outputs, everything else is a parameter.

    Raises:
        BadResponse: an output is not made of whole numbers in its range.
    """
    kinds: dict[str, npt.DTypeLike] = {"audio": np.int16, "sample_rate": np.int32}
    outputs = {name: _integers(name, document[name], kind) for name, kind in kinds.items() if name in document}
    return InferAnswer(outputs, {key: value for key, value in document.items() if key not in kinds})
