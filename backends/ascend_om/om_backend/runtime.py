"""The one interface behind which every graph runtime stands, and the choice of a runtime for a graph.

The choice follows the graph's own ``device`` and file type. It never falls back: a graph that asks for an NPU is
refused where none works, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import ConfigError, Unavailable
from voxrepo_contract.stage import GraphSpec

Array = npt.NDArray[np.generic]
Arrays = Mapping[str, Array]

NUMPY_DTYPES: dict[str, type[np.generic]] = {
    "BOOL": np.bool_,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
"""numpy types by Open Inference Protocol name."""


class Graph(Protocol):
    """A loaded graph. Not thread-safe: one caller at a time."""

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Run once. ``feeds`` holds every input by name; returns every output by name.

        Raises:
            Internal: the runtime failed.
        """
        ...

    def release_work_memory(self) -> None:
        """Give back memory that grew for shapes that will not come again, such as those of a measurement."""
        ...


@dataclass(frozen=True)
class RuntimeSettings:
    """How graphs of one model instance are run.

    Attributes:
        threads: intra-op threads of a CPU graph.
    """

    threads: int = 1


def load_graph(version_dir: Path, spec: GraphSpec, settings: RuntimeSettings) -> Graph:
    """Load the graph file of ``spec`` on the device it asks for.

    Raises:
        Unavailable: the graph asks for a device that is not here.
        ConfigError: the file type is not one this backend runs, or the file does not match its description.
    """
    file = version_dir / spec.file
    if spec.device == "npu":
        raise Unavailable(
            f"{file}: the graph asks for an NPU (device: npu) and this server has no AscendCL runtime; "
            "serve a version with device: cpu, it is never moved there silently"
        )
    if spec.gears:
        raise ConfigError("gears are for NPU graphs; a graph with device: cpu takes any size, remove them", file=file)
    if file.suffix != ".onnx":
        raise ConfigError("device cpu runs .onnx graphs; convert the model or set device: npu", file=file)
    from om_backend.onnx_cpu import OnnxGraph

    return OnnxGraph(file, spec, settings)
