"""What a loaded graph says of itself. Plain data that travels between the device worker and the stub as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["static", "batch_gears", "dims_gears", "range"]
"""How a graph's shapes vary: not at all; over batch sizes; over joint dims of its inputs; freely within ranges."""

UNBOUNDED = -1


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the graph's own descriptor gives it.

    Attributes:
        name: the tensor's name.
        dtype: Open Inference Protocol name; ``FP16`` is carried as numpy float16, ``BF16`` is refused by the runtimes.
        dims: sizes; -1 where it varies.
        ranges: lowest and highest size of each axis, highest -1 if unbounded; empty unless the kind is ``range``.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class MemoryNeed:
    """Device memory of a loaded graph, in bytes."""

    weights_bytes: int = 0
    work_bytes: int = 0
    buffers_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weights_bytes + self.work_bytes + self.buffers_bytes


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a device, in bytes."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class GraphDescription:
    """A loaded graph.

    Attributes:
        kind: how its shapes vary.
        inputs: in the graph's order, without the hidden gear input.
        outputs: in the graph's order; dims -1 where they vary or are not known before a run.
        gears: for ``batch_gears`` and ``dims_gears``, each gear as input name -> dims of that input, all inputs named.
        memory: what it takes on the device.
        soc: chip the file was built for; "" if the file does not say.
    """

    kind: Kind
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    gears: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    memory: MemoryNeed = field(default_factory=MemoryNeed)
    soc: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> GraphDescription:
        """The description that :meth:`to_json` wrote."""
        return GraphDescription(
            kind=value["kind"],
            inputs=tuple(_tensor(item) for item in value["inputs"]),
            outputs=tuple(_tensor(item) for item in value["outputs"]),
            gears=tuple({name: tuple(dims) for name, dims in gear.items()} for gear in value["gears"]),
            memory=MemoryNeed(**value["memory"]),
            soc=value["soc"],
        )


def _tensor(item: Mapping[str, Any]) -> TensorInfo:
    return TensorInfo(
        item["name"], item["dtype"], tuple(item["dims"]), tuple((low, high) for low, high in item["ranges"])
    )
