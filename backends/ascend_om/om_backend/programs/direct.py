"""``direct``: one graph, its tensors as they are. For any model that is not a voice's stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from om_backend.job import Job, run_isolated
from om_backend.runtime import NUMPY_DTYPES, Array, Graph
from voxrepo_contract.errors import Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import DirectStage, GraphTensor

BATCH_AXIS = "batch"


class DirectProgram:
    """Runs ``graphs.model``.

    Where every tensor's first axis is named ``batch``, requests whose other dims agree share a call.
    """

    def __init__(self, stage: DirectStage, graphs: Mapping[str, Graph]) -> None:
        self._graph = graphs["model"]
        self._inputs = stage.graphs["model"].inputs
        self._outputs = stage.graphs["model"].outputs
        self._batched = all(t.dims and t.dims[0] == BATCH_AXIS for t in [*self._inputs, *self._outputs])

    def warm_up(self) -> str:
        """Run once on zeros, axes that vary set to 1."""
        feeds = {
            tensor.name: np.zeros([d if isinstance(d, int) else 1 for d in tensor.dims], NUMPY_DTYPES[tensor.dtype])
            for tensor in self._inputs
        }
        self._graph.run(feeds)
        return "requests share calls" if self._batched else "one request per call"

    def run(self, jobs: list[Job]) -> None:
        """Answer every job."""
        groups: dict[tuple[object, ...], list[tuple[Job, dict[str, Array]]]] = {}
        for number, job in enumerate(jobs):
            try:
                feeds = {tensor.name: _checked(job, tensor) for tensor in self._inputs}
            except VoxrepoError as error:
                job.fail(error)
                continue
            shapes = tuple(feeds[t.name].shape[1:] for t in self._inputs)
            groups.setdefault(shapes if self._batched else (number,), []).append((job, feeds))
        for group in groups.values():
            run_isolated(group, self._run_group, lambda unit: unit[0])

    def _run_group(self, group: Sequence[tuple[Job, dict[str, Array]]]) -> None:
        if len(group) == 1:
            results = [self._graph.run(group[0][1])]
        else:
            joined = {t.name: np.concatenate([feeds[t.name] for _, feeds in group]) for t in self._inputs}
            rows = [len(feeds[self._inputs[0].name]) for _, feeds in group]
            results = _split(self._graph.run(joined), rows)
        for (job, _), outputs in zip(group, results, strict=True):
            job.finish(outputs)


def _checked(job: Job, tensor: GraphTensor) -> Array:
    value = job.inputs.get(tensor.name)
    if value is None:
        raise InvalidArgument(f"input {tensor.name!r} is missing")
    fits = value.ndim == len(tensor.dims) and all(
        isinstance(want, str) or want == have for want, have in zip(tensor.dims, value.shape, strict=True)
    )
    if not fits or value.dtype != NUMPY_DTYPES[tensor.dtype]:
        raise InvalidArgument(
            f"input {tensor.name!r} must be {tensor.dtype} {tensor.dims}, got {value.dtype} {list(value.shape)}"
        )
    return value


def _split(outputs: Mapping[str, Array], rows: list[int]) -> list[dict[str, Array]]:
    edges = np.cumsum(rows)
    for name, value in outputs.items():
        if len(value) != edges[-1]:
            raise Internal(f"output {name!r} has {len(value)} rows for a batch of {edges[-1]}")
    parts = {name: np.split(value, edges[:-1]) for name, value in outputs.items()}
    return [{name: parts[name][index] for name in outputs} for index in range(len(rows))]
