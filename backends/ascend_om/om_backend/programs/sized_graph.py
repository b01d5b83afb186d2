"""A graph together with the sizes that its calls may have and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from om_backend import costs
from om_backend.cost_store import CostStore
from om_backend.gear_costs import measure_gears
from om_backend.gears import GearTable, describe, gears_of
from om_backend.packing import Call, CallCost, CallTable, Shape, pack
from om_backend.runtime import NUMPY_DTYPES, Array, Arrays, Graph
from voxrepo_contract.stage import GraphSpec


class SizedGraph:
    """One graph of a program.

    Args:
        graph: the loaded graph.
        spec: its description.
        tensor: the input from which the sizes of a call are read; its axis 0 is the batch.
        length_axis: axis of that input that is padded.
        unit_batch: most units of a call; ``None`` measures what is cheapest.
        store: keeps measured costs; ``None`` keeps nothing.
    """

    def __init__(
        self,
        graph: Graph,
        spec: GraphSpec,
        tensor: str,
        length_axis: int,
        unit_batch: int | None,
        store: CostStore | None,
    ) -> None:
        self.graph = graph
        self.file = spec.file
        self.gears = gears_of(spec, tensor, length_axis)
        self._spec = spec
        self._unit_batch = unit_batch
        self._store = store or CostStore()
        self._dtypes = {t.name: NUMPY_DTYPES[t.dtype] for t in spec.inputs}
        self.table: CallTable = (
            GearTable.estimated(self.gears).limited(unit_batch) if self.gears else CallCost.per_call(unit_batch or 1)
        )

    def has_input(self, name: str) -> bool:
        """Whether the graph has an input of that name."""
        return name in self._dtypes

    def measure(self, call_with: Callable[[Shape], Callable[[], object]], reference_length: int) -> None:
        """Measure what calls cost, or recall it; every gear runs at least once.

        Args:
            call_with: for a shape, a function that runs the graph once in it.
            reference_length: length at which graphs without gears are measured.
        """
        sha256 = self._spec.sha256
        if self.gears:
            measured = measure_gears(
                self.gears, lambda gear: call_with(Shape(*gear)), store=self._store, graph_sha256=sha256
            )
            self.table = measured.limited(self._unit_batch)
        elif self._unit_batch is None:
            tried: list[int] = []

            def call_of(batch: int) -> Callable[[], object]:
                tried.append(batch)
                return call_with(Shape(batch, reference_length))

            self.table = costs.measure(call_of, reference_length, store=self._store, graph_sha256=sha256)
            if tried:  # recalled costs took no memory, and this opens the graph once more
                self.graph.release_work_memory()

    def describe(self) -> str:
        """Sizes in use, for the log."""
        if isinstance(self.table, GearTable):
            return f"gears {describe(self.table.gears)}"
        return f"batches {self.table.rows}"

    def pack(self, lengths: Sequence[int]) -> list[Call]:
        """Calls for units of these lengths; see :func:`om_backend.packing.pack`."""
        return pack(lengths, self.table)

    def shape(self, rows: int, longest: int) -> Shape:
        """Size of the call for units that :meth:`pack` put together, or for some of them."""
        shape = self.table.shape(rows, longest)
        assert shape is not None, f"{self.file} has no call for {rows} rows of length {longest}"
        return shape

    def run(self, feeds: Arrays, graph: Graph | None = None) -> dict[str, Array]:
        """Run the graph, or another one of the same file; feeds are cast to the data types that it asks for."""
        return (graph or self.graph).run(
            {name: value.astype(self._dtypes[name], copy=False) for name, value in feeds.items()}
        )
