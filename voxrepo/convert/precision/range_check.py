"""What does not fit into half precision: found by looking at the values, on texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from voxrepo.convert.onnx_graph import elem_types
from voxrepo.convert.precision.half import MAX_HALF
from voxrepo.convert.precision.nodes import plain
from voxrepo.convert.proof_cases import open_session
from voxrepo.importers.onnx_run import run

Array = npt.NDArray[Any]

HEADROOM = 2.0
"""How much larger values of other texts may be than those seen."""


def too_large(model: onnx.ModelProto, rows: Iterable[Mapping[str, Array]]) -> dict[str, str]:
    """Nodes that read or make values too large for half precision, with the reason.

    The usual one is a square: where a layer normalisation meets values beyond 256, their squares exceed 65 504.
    """
    copy = plain(model)
    types = elem_types(copy)
    known = {value.name for value in copy.graph.output}
    made = [
        name for node in copy.graph.node for name in node.output if name and types.get(name) == onnx.TensorProto.FLOAT
    ]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made if name not in known)
    session = open_session(copy.SerializeToString())
    peaks: dict[str, float] = {}
    for row in rows:
        for name, value in run(session, row, "the graph, to see its values,").items():
            if value.dtype == np.float32:
                peak = float(np.abs(value).max(initial=0.0))
                peaks[name] = max(peaks.get(name, 0.0), np.inf if np.isnan(peak) else peak)
    found: dict[str, str] = {}
    for node in copy.graph.node:
        peak = max((peaks.get(name, 0.0) for name in (*node.input, *node.output)), default=0.0)
        if peak * HEADROOM > MAX_HALF:
            found[node.name] = f"{node.op_type}: its values reach {peak:.3g}, and half precision ends at {MAX_HALF:.0f}"
    return found
