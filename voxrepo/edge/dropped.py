"""Pure: the ensemble's output ``dropped``, which clients get as a response parameter."""

from __future__ import annotations

import json
from typing import Any

from voxrepo.edge import tensordata
from voxrepo.edge.openinference import raw_outputs
from voxrepo_contract.errors import Internal, InvalidArgument
from voxrepo_contract.tensors import DROPPED


def take_dropped(response: Any) -> dict[str, int]:
    """Take the output out of a ``ModelInferResponse``.

    Returns:
        characters that were not spoken, by reason; empty where all were.

    Raises:
        Internal: the engine's answer has no such output, or not a JSON object of counts in it.
    """
    raw = raw_outputs(response)
    names = [output.name for output in response.outputs]
    if DROPPED.name not in names:
        raise Internal(f"the engine's answer has no output {DROPPED.name!r}")
    index = names.index(DROPPED.name)
    counts = _counts(raw[index], response.outputs[index].datatype)
    del response.outputs[index]
    del response.raw_output_contents[index]
    return counts


def _counts(raw: bytes, datatype: str) -> dict[str, int]:
    try:
        (text,) = tensordata.decode(raw, datatype, DROPPED.name)
        counts = json.loads(text)
        if isinstance(counts, dict) and all(type(count) is int and count > 0 for count in counts.values()):
            return counts
    except (ValueError, TypeError, InvalidArgument):
        pass
    raise Internal(f"the engine's output {DROPPED.name!r} is not a JSON object of counts")
