"""The one interface behind which every graph runtime stands, and the loading of a graph into the chosen one.

The choice follows the graph's own ``device`` and file type and the model's parameter ``runtime``, see
:mod:`om_backend.choice`. It never falls back: a graph that asks for an NPU is refused where none works, with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from om_backend.choice import ONNX_CPU, choose
from om_backend.device.description import GraphDescription
from om_backend.device.dtypes import DTYPES
from om_backend.device.interface import Array as Array  # noqa: PLC0414  part of this interface, too
from om_backend.device.settings import Mode
from voxrepo_contract.errors import ConfigError, Internal
from voxrepo_contract.stage import GraphSpec

if TYPE_CHECKING:
    from om_backend.device.client import DeviceWorker

Arrays = Mapping[str, Array]

NUMPY_DTYPES: dict[str, np.dtype[np.generic]] = {**DTYPES, "BYTES": np.dtype(np.object_)}
"""numpy types by Open Inference Protocol name; texts travel as objects, in this process only."""


class Graph(Protocol):
    """A loaded graph. Not thread-safe: one caller at a time.

    Attributes:
        description: what the graph says of itself; ``None`` on a CPU, where any size runs.
    """

    description: GraphDescription | None

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Run once. ``feeds`` holds every input by name; returns every output by name, in arrays of the caller's.

        Raises:
            InvalidArgument: a shape that the graph does not take.
            Internal: the runtime failed.
            Unavailable: the device failed or restarts.
        """
        ...

    def release_work_memory(self) -> None:
        """Give back memory that grew for shapes that will not come again, such as those of a measurement."""
        ...

    def close(self) -> None:
        """Unload; safe to call twice."""
        ...


@dataclass(frozen=True)
class RuntimeSettings:
    """How graphs of one model instance are run.

    Attributes:
        threads: intra-op threads of a CPU graph.
        opening_threads: those for a vocoder's windows that begin segments.
        runtime: the model's parameter ``runtime``; ``None`` takes the usual one of each file type.
        mode: what the server was started for (``VOXREPO_DEVICE``).
        worker: gives the instance's worker for a runtime and a device; ``None`` where graphs run in this process only.
        options: of device runtimes, as text.
        loaded: told of each graph that was loaded.
        max_batch_size: of the model's configuration; 0 if its tensors have no batch axis.
    """

    threads: int = 1
    opening_threads: int = 1
    runtime: str | None = None
    mode: Mode = "cpu"
    worker: Callable[[str, str], DeviceWorker] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    loaded: Callable[[Path, str, Graph], None] | None = None
    max_batch_size: int = 0


def load_graph(version_dir: Path, spec: GraphSpec, settings: RuntimeSettings) -> Graph:
    """Load the graph file of ``spec`` on the device it asks for.

    Raises:
        Unavailable: the graph asks for a device that is not here, or that does not work.
        ConfigError: the file type is not one this backend runs, or the file does not match its description.
    """
    file = version_dir / spec.file
    choice = choose(file, spec.device, settings.runtime, settings.mode)
    if spec.gears and choice.device == "cpu":
        raise ConfigError("gears are for NPU graphs; a graph with device: cpu takes any size, remove them", file=file)
    graph: Graph
    if choice.runtime == ONNX_CPU:
        from om_backend.onnx_cpu import OnnxGraph

        graph = OnnxGraph(file, spec, settings)
        where = f"onnxruntime on the CPU, {settings.threads} threads"
    else:
        from om_backend.device.worker_graph import WorkerGraph

        if settings.worker is None:
            raise Internal(f"{file}: runtime {choice.runtime!r} needs a device worker, and none was given")
        worker = settings.worker(choice.runtime, choice.device)
        graph = WorkerGraph(worker, file, spec, dict(settings.options))
        where = worker.name
    if settings.loaded is not None:
        settings.loaded(file, where, graph)
    return graph
