"""Running graphs for a proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort

from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]


def open_session(model: onnx.ModelProto) -> ort.InferenceSession:
    """A session of one thread: the stored figures are the same in every run."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(session: ort.InferenceSession, feeds: Mapping[str, Array], what: str) -> dict[str, Array]:
    """Run once, giving only inputs that the graph has.

    Raises:
        ConversionRefused: it does not run.
    """
    names = [entry.name for entry in session.get_outputs()]
    wanted = {entry.name for entry in session.get_inputs()}
    try:
        values = session.run(names, {name: value for name, value in feeds.items() if name in wanted})
    except Exception as error:  # the runtime has no public base class for its errors
        raise ConversionRefused(f"{what} does not run: {error}") from error
    return dict(zip(names, values, strict=True))


def max_diff(a: Array, b: Array) -> float:
    """Largest absolute difference; NaN where one is in either."""
    return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))
