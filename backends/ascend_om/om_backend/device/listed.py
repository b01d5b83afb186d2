"""Tensors as ``stage.yaml`` lists them, for graph files that do not describe their own."""

from __future__ import annotations

import json
from collections.abc import Mapping

from om_backend.device.description import UNBOUNDED, GraphDescription, TensorInfo
from om_backend.device.faults import Action, DeviceFault


def listed_description(options: Mapping[str, str]) -> GraphDescription:
    """The description that the options ``inputs`` and ``outputs`` give; an axis that varies takes any size.

    Raises:
        DeviceFault: they are missing.
    """
    try:
        inputs, outputs = (json.loads(options[side]) for side in ("inputs", "outputs"))
    except (KeyError, ValueError) as error:
        raise DeviceFault(
            "load", 0, Action.REFUSE, "this kind of graph does not say what its tensors are; list them in stage.yaml"
        ) from error
    return GraphDescription(
        kind="range",
        inputs=tuple(_tensor(item, with_ranges=True) for item in inputs),
        outputs=tuple(_tensor(item, with_ranges=False) for item in outputs),
    )


def _tensor(item: Mapping[str, object], *, with_ranges: bool) -> TensorInfo:
    dims = tuple(int(size) for size in item["dims"])  # type: ignore[attr-defined]
    ranges = tuple((1, UNBOUNDED) if size < 0 else (size, size) for size in dims) if with_ranges else ()
    return TensorInfo(str(item["name"]), str(item["dtype"]), dims, ranges)
