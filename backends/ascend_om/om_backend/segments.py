"""The segments of one request, which lie one after the other in a flat tensor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from om_backend.job import Job
from om_backend.runtime import Array
from voxrepo_contract import tensors
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.tensors import TensorSpec

MAX_PAUSE_MS = 60_000
"""Longest silence after a segment; the longest pause of a front end at the slowest speed is below it."""

MAX_SILENCE_MS = 4 * 3_600_000
"""Of one request, all pauses together; at 22 kHz 600 MB of samples, from a request of any size. Two thousand lines at
the slowest speed have an hour."""

_SHOWN = 20


def read_segments(job: Job, values: TensorSpec, lengths: TensorSpec) -> tuple[list[Array], npt.NDArray[np.int32]]:
    """Cut the tensor ``values`` of a request at its ``lengths``, and read the pauses that go with them.

    Returns:
        S segments along the first axis, and INT32 [S] silence after each, in milliseconds.

    Raises:
        InvalidArgument: a tensor is missing or wrong, the lengths do not add up, or a pause is out of range.
    """
    flat = job.row(values)
    counts = job.row(lengths).astype(np.int64)
    pause_ms = job.row(tensors.PAUSE_MS).astype(np.int32)
    if len(counts) == 0 or (counts < 1).any() or int(counts.sum()) != len(flat):
        raise InvalidArgument(
            f"{lengths.name} must be positive and sum to the {len(flat)} rows of {values.name}, "
            f"got {counts.tolist()[:_SHOWN]}"
        )
    if len(pause_ms) != len(counts) or (pause_ms < 0).any() or (pause_ms > MAX_PAUSE_MS).any():
        raise InvalidArgument(
            f"pause_ms needs {len(counts)} values from 0 to {MAX_PAUSE_MS}, got {pause_ms.tolist()[:_SHOWN]}"
        )
    if int(pause_ms.sum(dtype=np.int64)) > MAX_SILENCE_MS:
        raise InvalidArgument(f"pause_ms sums to {pause_ms.sum(dtype=np.int64)} ms; the limit is {MAX_SILENCE_MS}")
    return np.split(flat, np.cumsum(counts)[:-1]), pause_ms
