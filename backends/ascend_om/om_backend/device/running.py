"""One run inside the worker: arrays over shared memory in, arrays over shared memory out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from om_backend.device.dtypes import DTYPES, name_of
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array, LoadedGraph
from om_backend.device.memory import Area, TooLarge, Window


def run_graph(graph: LoadedGraph, tensors: Sequence[Sequence[Any]], window: Window, area: Area) -> dict[str, Any]:
    """Run a graph on tensors that lie in ``window``; its outputs go to ``area``.

    Args:
        graph: what to run.
        tensors: ``[segment, offset, bytes, dtype, dims]`` of each input.
        window: the stub's memory.
        area: the worker's memory.

    Returns:
        ``tensors``, and ``run_us``, the time that the runtime took.

    Raises:
        DeviceFault: the run failed.
        ProtocolError: an input is not in the stub's memory.
        ValueError: the runtime did not place its outputs as it must.
    """
    inputs: list[Array] = []
    for segment, offset, size, dtype, dims in tensors:
        buffer = window.buffer(segment, offset, size)
        inputs.append(np.ndarray(dims, DTYPES[dtype], buffer, offset))
    outputs = len(graph.description.outputs)
    placed: list[list[Any] | None] = [None] * outputs

    def place(index: int, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        if not 0 <= index < outputs or placed[index] is not None:
            raise ValueError(f"the runtime placed output {index} of {outputs}, or twice")
        try:
            room = area.reserve(math.prod(shape) * dtype.itemsize)
        except TooLarge as error:
            raise DeviceFault("run", 0, Action.REQUEST, f"the answer is too large: {error}") from error
        placed[index] = [room.segment, room.offset, room.size, name_of(dtype), [int(size) for size in shape]]
        return np.ndarray(shape, dtype, room.buffer, room.offset)

    area.begin()
    start = time.perf_counter_ns()
    graph.run(inputs, place)
    run_us = (time.perf_counter_ns() - start) // 1000
    if None in placed:
        raise ValueError(f"the runtime placed {outputs - placed.count(None)} of {outputs} outputs")
    return {"tensors": placed, "run_us": run_us}
