"""A stage made of a graph file alone, for version directories without ``stage.yaml``."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from om_backend.cost_store import CostStore
from om_backend.job import Program
from om_backend.programs.direct import DirectProgram
from om_backend.runtime import NUMPY_DTYPES, Array, Graph, RuntimeSettings, load_graph
from voxrepo_contract.errors import ConfigError, VoxrepoError
from voxrepo_contract.foreign import graph_spec_of, read_foreign
from voxrepo_contract.stage import BATCH_AXIS, STAGE_FILE, DirectStage, GraphSpec, GraphTensor

_TRIAL_SIZES = (8, 32, 128, 1)
"""Sizes tried for axes that vary; many graphs need some minimum, such as the width of a kernel."""
_MAX_RELATIVE_CHANGE = 1e-2
"""Kernels differ by batch size in their last bits, quantised ones somewhat more; a mix-up of rows by far more."""
_MAX_CHANGED_WHOLE_NUMBERS = 0.25
"""Share of whole numbers that may change: a near tie may fall to another class."""


def is_foreign(version_dir: Path) -> bool:
    """Whether a version directory has no description of its own."""
    file = version_dir / STAGE_FILE
    return not file.exists() and not file.is_symlink()


def load_foreign(version_dir: Path, settings: RuntimeSettings, unit_batch: int | None) -> Program:
    """Load the graph file of a version directory as a ``direct`` program.

    Raises:
        ConfigError: there is no such file, it cannot be served, or its requests must not be joined as configured.
        Unavailable: it asks for a device that is not here.
    """
    stage = derive_stage(version_dir, joined=settings.max_batch_size > 0, runtime=settings.runtime)
    spec = stage.graphs["model"]
    graph = load_graph(version_dir, spec, settings)
    try:
        if settings.max_batch_size > 1:
            check_rows_are_independent(version_dir, spec, graph)
    except VoxrepoError:
        graph.close()
        raise
    store = CostStore.of_environment(settings)
    return ForeignProgram(stage, {"model": graph}, unit_batch, store)


def derive_stage(version_dir: Path, *, joined: bool, runtime: str | None = None) -> DirectStage:
    """The ``direct`` stage that serves the graph file of a version directory.

    Args:
        version_dir: without ``stage.yaml``.
        joined: whether the model's configuration has a batch axis; the first axis of every tensor is that then.
        runtime: the model's parameter; ``onnx`` asks for an NPU.

    Raises:
        ConfigError: there is no such file, or it cannot be served.
    """
    graph = read_foreign(version_dir)
    if runtime == "onnx":
        graph = replace(graph, device="npu")
    spec = graph_spec_of(version_dir, graph, joined=joined)
    return DirectStage(program="direct", stage="model", graphs={"model": spec})


class ForeignProgram(DirectProgram):
    """A ``direct`` program of a graph of which nobody said which sizes it takes."""

    def warm_up(self) -> str:
        """Run once, at the first of some usual sizes that the graph takes; or run and measure every gear."""
        if self._spec.gears or not any(isinstance(dim, str) for tensor in self._inputs for dim in tensor.dims):
            return super().warm_up()
        joins = "requests share calls" if self._batched else "one request per call"
        for size in _TRIAL_SIZES:
            with contextlib.suppress(VoxrepoError):
                self._graph.run(_row(self._spec, size, 0))
                return joins
        sizes = ", ".join(map(str, _TRIAL_SIZES))
        return f"{joins}; not warmed up, since it runs at none of the sizes {sizes} for the axes that vary"


def check_rows_are_independent(version_dir: Path, spec: GraphSpec, graph: Graph) -> None:
    """Try whether a row's result depends on the rows beside it; then requests must not be joined.

    The first axis of a graph can be a batch or, say, a time, and the file seldom tells. So two rows are run together
    and each alone. A graph that takes none of the sizes tried, or that draws random numbers, passes unproved.

    Raises:
        ConfigError: the rows influence each other.
    """
    if spec.gears or not all(t.dims and t.dims[0] == BATCH_AXIS for t in (*spec.inputs, *spec.outputs)):
        return
    for size in _TRIAL_SIZES:
        first, second = (_row(spec, size, number) for number in (0, 1))
        together = {name: np.concatenate([first[name], second[name]]) for name in first}
        try:
            one, other, again = (graph.run(feeds) for feeds in (first, second, first))
            both = graph.run(together)
        except VoxrepoError:
            continue
        if any(not np.array_equal(one[name], again[name]) for name in one):
            return  # it draws random numbers
        for name in one:
            if one[name].shape[1:] != other[name].shape[1:]:
                continue  # sizes follow from the values
            change = _change(both[name], np.concatenate([one[name], other[name]]))
            if change:
                raise ConfigError(
                    f"the rows of a batch influence each other ({change} of output {name!r} when a row runs beside "
                    "another), so requests must not be joined; if its first axis is no batch, say max_batch_size: 0 "
                    "in config.pbtxt, else 1",
                    file=version_dir / spec.file,
                )
        return


def _change(have: Array, want: Array) -> str:
    """What is different, in words; "" if nothing is beyond rounding."""
    if have.shape != want.shape:
        return f"shape {list(have.shape)} instead of {list(want.shape)}"
    if have.dtype.kind == "f":
        a, b = have.astype(np.float64), want.astype(np.float64)
        scale = float(np.abs(b).max(initial=0.0)) or 1.0
        worst = float(np.abs(a - b).max(initial=0.0)) / scale
        return f"a change by {worst:.3g} of the largest value" if worst > _MAX_RELATIVE_CHANGE else ""
    share = float(np.mean(have != want)) if have.size else 0.0
    return f"a change of {share:.0%} of the values" if share > _MAX_CHANGED_WHOLE_NUMBERS else ""


def _row(spec: GraphSpec, size: int, number: int) -> dict[str, Array]:
    """Inputs of one row, ``size`` where they vary; whole numbers are 0 or 1, since they may index a small table."""
    random = np.random.default_rng(number)
    shapes = {
        t.name: [dim if isinstance(dim, int) else 1 if dim == BATCH_AXIS else size for dim in t.dims]
        for t in spec.inputs
    }
    return {tensor.name: _values(tensor, shapes[tensor.name], number, random) for tensor in spec.inputs}


def _values(tensor: GraphTensor, shape: list[int], number: int, random: np.random.Generator) -> Array:
    dtype = NUMPY_DTYPES[tensor.dtype]
    if tensor.dtype == "BYTES":
        return np.full(shape, b"ab"[number : number + 1], dtype=np.object_)
    if np.issubdtype(dtype, np.floating):
        return random.standard_normal(shape).astype(dtype)
    return np.full(shape, number, dtype=dtype)
