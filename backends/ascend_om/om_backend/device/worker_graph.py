"""A graph that runs in a device worker, as the stage programs see it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from om_backend.device.client import DeviceWorker
from om_backend.device.description import GraphDescription
from om_backend.device.dtypes import DTYPES
from om_backend.device.interface import Array
from om_backend.device.matching import bind
from om_backend.runtime import Arrays
from voxrepo_contract.errors import Internal, VoxrepoError
from voxrepo_contract.stage import GraphSpec, GraphTensor


class WorkerGraph:
    """See :class:`om_backend.runtime.Graph`.

    Args:
        worker: runs it; started if it is not running yet.
        file: the graph file.
        spec: what ``stage.yaml`` says of it.
        options: of the runtime, for this graph.

    Raises:
        ConfigError: the file cannot be loaded or is not what ``stage.yaml`` says.
        Unavailable: the device does not work.
    """

    description: GraphDescription | None

    def __init__(
        self, worker: DeviceWorker, file: Path, spec: GraphSpec, options: dict[str, str] | None = None
    ) -> None:
        self._worker = worker
        self._file = file
        told = {"inputs": _as_json(spec.inputs), "outputs": _as_json(spec.outputs), **(options or {})}
        self._number, self.description = worker.load(file.absolute(), told)
        try:
            self._binding = bind(spec, self.description, file)
        except VoxrepoError:
            worker.unload(self._number)
            raise
        dtypes = {tensor.name: DTYPES[tensor.dtype] for tensor in spec.inputs}
        self._inputs = [(name, dtypes[name]) for name in self._binding.inputs]

    def run(self, feeds: Arrays) -> dict[str, Array]:
        """Run once; the arrays returned are the caller's.

        Raises:
            Internal: ``feeds`` are not the graph's inputs.
            InvalidArgument: a shape that the graph does not take.
            Unavailable: the device failed, restarts or is out of service.
        """
        if len(feeds) != len(self._inputs):
            raise Internal(f"{self._file.name} takes {[name for name, _ in self._inputs]}, was fed {list(feeds)}")
        inputs: list[Array] = []
        for name, dtype in self._inputs:
            value = feeds.get(name)
            if value is None or value.dtype != dtype:
                given = "nothing" if value is None else str(value.dtype)
                raise Internal(f"{self._file.name}: input {name!r} must be {dtype}, was fed {given}")
            inputs.append(value if isinstance(value, np.ndarray) else np.asarray(value))
        outputs = self._worker.run(self._number, inputs)
        return dict(zip(self._binding.outputs, outputs, strict=True))

    def release_work_memory(self) -> None:
        """Give back shared memory that grew for shapes that will not come again."""
        self._worker.trim()

    def close(self) -> None:
        """Unload the graph; safe to call twice."""
        self._worker.unload(self._number)


def _as_json(tensors: list[GraphTensor]) -> str:
    return json.dumps(
        [{"name": t.name, "dtype": t.dtype, "dims": [d if isinstance(d, int) else -1 for d in t.dims]} for t in tensors]
    )
