"""``direct``: one graph, its tensors as they are. For any model that is not a voice's stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from om_backend.cost_store import CostStore
from om_backend.gear_costs import measure_gears
from om_backend.gears import Gear, GearTable
from om_backend.job import Job, run_isolated
from om_backend.packing import pack
from om_backend.runtime import NUMPY_DTYPES, Array, Arrays, Graph
from voxrepo_contract.errors import ConfigError, Internal, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import BATCH_AXIS, Dim, DirectStage, GraphSpec, GraphTensor

Sizes = tuple[tuple[str, int], ...]
"""Sizes of all named axes of the inputs but the batch, sorted by name."""


@dataclass
class _Request:
    """A request of a graph with gears.

    Attributes:
        rows: number of its rows; 1 where the graph has no batch axis.
        results: what came back so far: for each row, its outputs.
    """

    job: Job
    feeds: dict[str, Array]
    rows: int
    results: dict[int, dict[str, Array]] = field(default_factory=dict)


_Row = tuple[_Request, int]


class DirectProgram:
    """Runs ``graphs.model``. What comes out is sent as it is: only the model's owner knows what is right.

    Where every tensor's first axis is named ``batch``, requests whose other dims agree share a call. A graph with
    gears gets calls of its gears: zero rows fill a call up, requests with many rows are spread over several, and axes
    other than the batch must be of a gear's size.
    """

    def __init__(
        self,
        stage: DirectStage,
        graphs: Mapping[str, Graph],
        unit_batch: int | None = None,
        store: CostStore | None = None,
    ) -> None:
        self._graph = graphs["model"]
        self._spec = stage.graphs["model"]
        self._inputs = self._spec.inputs
        self._outputs = self._spec.outputs
        self._batched = all(t.dims and t.dims[0] == BATCH_AXIS for t in [*self._inputs, *self._outputs])
        self._unit_batch = unit_batch
        self._store = store or CostStore()
        self._tables = {sizes: GearTable.estimated(gears).limited(unit_batch) for sizes, gears in self._gears().items()}

    def _gears(self) -> dict[Sizes, list[Gear]]:
        """Batch gears by the sizes of the other axes; the length of each is 1, since nothing is padded along it."""
        found: dict[Sizes, list[Gear]] = {}
        for gear in self._spec.gears:
            names = {dim for tensor in self._inputs for dim in tensor.dims if isinstance(dim, str)}
            missing = names - set(gear)
            if missing:
                raise ConfigError(
                    f"{self._spec.file}: the gear {gear} does not say the size of the axis {min(missing)!r}; add it"
                )
            sizes = tuple(sorted((name, gear[name]) for name in names if not (self._batched and name == BATCH_AXIS)))
            found.setdefault(sizes, []).append(Gear(gear[BATCH_AXIS] if self._batched else 1, 1))
        return {sizes: sorted(set(gears)) for sizes, gears in found.items()}

    def warm_up(self) -> str:
        """Run once on zeros, axes that vary set to 1; or run and measure every gear."""
        if not self._tables:
            self._graph.run(self._zeros({}))
            return "requests share calls" if self._batched else "one request per call"

        def call_with(sizes: Sizes) -> Callable[[Gear], Callable[[], object]]:
            def of_gear(gear: Gear) -> Callable[[], object]:
                feeds = self._zeros({**dict(sizes), BATCH_AXIS: gear.batch} if self._batched else dict(sizes))
                return lambda: self._graph.run(feeds)

            return of_gear

        for sizes, gears in self._gears().items():
            table = measure_gears(
                gears, call_with(sizes), store=self._store, graph_sha256=f"{self._spec.sha256} {dict(sizes)}"
            )
            self._tables[sizes] = table.limited(self._unit_batch)
        return f"{len(self._spec.gears)} gears: {_describe(self._spec)}"

    def _zeros(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        return {tensor.name: _zeros(tensor, [_size(dim, sizes) for dim in tensor.dims]) for tensor in self._inputs}

    def run(self, jobs: list[Job]) -> None:
        """Answer every job."""
        if self._tables:
            self._run_in_gears(jobs)
            return
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

    def _run_in_gears(self, jobs: list[Job]) -> None:
        rows: dict[Sizes, list[_Row]] = {}
        for job in jobs:
            try:
                feeds = {tensor.name: _checked(job, tensor) for tensor in self._inputs}
                sizes, count = self._sizes(feeds)
            except VoxrepoError as error:
                job.fail(error)
                continue
            request = _Request(job, feeds, count)
            rows.setdefault(sizes, []).extend((request, row) for row in range(count))
        for sizes, units in rows.items():
            table = self._tables[sizes]
            for call in pack([1] * len(units), table):
                group = [units[index] for index in call.units]
                run_isolated(group, partial(self._run_rows, table=table), lambda unit: unit[0].job)

    def _sizes(self, feeds: Arrays) -> tuple[Sizes, int]:
        """Sizes of a request's axes, and its rows.

        Raises:
            InvalidArgument: an axis has two sizes, or no gear has these.
        """
        found: dict[str, int] = {}
        for tensor in self._inputs:
            for dim, have in zip(tensor.dims, feeds[tensor.name].shape, strict=True):
                if isinstance(dim, str) and found.setdefault(dim, have) != have:
                    raise InvalidArgument(
                        f"input {tensor.name!r}: the axis {dim!r} has size {have}, in another input it has {found[dim]}"
                    )
        rows = found.pop(BATCH_AXIS) if self._batched else 1
        sizes = tuple(sorted(found.items()))
        if sizes not in self._tables or rows < 1:
            asked = dict(sizes) if rows else {BATCH_AXIS: rows}
            raise InvalidArgument(f"no gear of this model has {asked}; it has {_describe(self._spec)}")
        return sizes, rows

    def _run_rows(self, group: Sequence[_Row], table: GearTable) -> None:
        if not self._batched:
            ((request, row),) = group
            request.results[row] = self._graph.run(request.feeds)
            request.job.finish(request.results[row])
            return
        shape = table.shape(len(group), 1)
        assert shape is not None
        feeds: dict[str, Array] = {}
        for tensor in self._inputs:
            first = group[0][0].feeds[tensor.name]
            feeds[tensor.name] = np.zeros((shape.batch, *first.shape[1:]), first.dtype)
            for place, (request, row) in enumerate(group):
                feeds[tensor.name][place] = request.feeds[tensor.name][row]
        outputs = self._graph.run(feeds)
        for name, value in outputs.items():
            if len(value) != shape.batch:
                raise Internal(f"output {name!r} has {len(value)} rows for a batch of {shape.batch}")
        for place, (request, row) in enumerate(group):
            # a copy: what a device returns is overwritten by the next call
            request.results[row] = {name: np.array(value[place]) for name, value in outputs.items()}
            if len(request.results) == request.rows:
                ordered = [request.results[number] for number in range(request.rows)]
                request.job.finish({name: np.stack([part[name] for part in ordered]) for name in outputs})


def _zeros(tensor: GraphTensor, shape: list[int]) -> Array:
    nothing = b"" if tensor.dtype == "BYTES" else 0
    return np.full(shape, nothing, NUMPY_DTYPES[tensor.dtype])


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else sizes.get(dim, 1)


def _describe(spec: GraphSpec) -> str:
    inputs = {dim for tensor in spec.inputs for dim in tensor.dims}
    gears = [" ".join(f"{name}={size}" for name, size in gear.items() if name in inputs) for gear in spec.gears]
    return ", ".join(dict.fromkeys(gears))


def _checked(job: Job, tensor: GraphTensor) -> Array:
    value = job.inputs.get(tensor.name)
    if value is None:
        raise InvalidArgument(f"input {tensor.name!r} is missing")
    if not tensor.dims and value.shape == (1,):
        # Triton knows no tensors without axes
        value = value.reshape(())
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
