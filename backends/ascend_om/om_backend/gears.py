"""Gears: the sizes for which a graph was built, and what a call costs in each. Pure data and functions.

An NPU graph is compiled for fixed shapes. A *gear* is one of them: a number of rows and a length to which every row is
padded with zeros. The graph is told the true lengths by inputs of its own (``lengths``, ``mask``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from om_backend.packing import Shape
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import Dim, GraphSpec

MIN_GAIN = 0.05
"""Time per row that a larger batch gear must save against smaller ones of its length; less is noise of the
measurement, and a call with more rows lets all of them wait for the last."""


class Gear(NamedTuple):
    """Rows of a call and the length to which each is padded."""

    batch: int
    length: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.length}"


class GearTable:
    """The gears of a graph and the estimated time of a call in each; a :class:`om_backend.packing.CallTable`.

    A call of ``rows`` units runs in the cheapest gear that holds them, be it larger than needed. So a gear never costs
    more than one that contains it, whatever noise is in the measurement, as :func:`om_backend.packing.pack` asks.

    Args:
        seconds: time of a call by gear, positive.
        max_units: most units put into one call; ``None`` for as many as the gear has rows.
    """

    pads_rows = True

    def __init__(self, seconds: Mapping[Gear, float], max_units: int | None = None) -> None:
        if not seconds:
            raise ValueError("a table needs at least one gear")
        if any(gear.batch < 1 or gear.length < 1 for gear in seconds) or (max_units is not None and max_units < 1):
            raise ValueError("the sizes of a gear must be positive")
        # also catches NaN
        if not all(0 < value < float("inf") for value in seconds.values()):
            raise ValueError("the cost of a gear must be a positive number")
        self._max_units = max_units
        self._seconds = {gear: float(seconds[gear]) for gear in sorted(seconds)}
        self._lengths = tuple(sorted({gear.length for gear in seconds}))
        self._rows = tuple(sorted({self._units(gear) for gear in seconds}))
        self._known: dict[tuple[int, int], Shape | None] = {}

    @staticmethod
    def estimated(gears: Iterable[Gear]) -> GearTable:
        """Costs without a measurement: one row of the shortest gear for the call, and rows times length."""
        known = list(gears)
        per_call = min((gear.length for gear in known), default=0)
        return GearTable({gear: float(per_call + gear.batch * gear.length) for gear in known})

    @staticmethod
    def measured(seconds: Mapping[Gear, float], min_gain: float = MIN_GAIN) -> GearTable:
        """Leave out gears whose batch does not save ``min_gain`` (0..1) per row against a smaller one of their length.

        The smallest batch of every length stays.
        """
        kept: dict[Gear, float] = {}
        least: dict[int, float] = {}
        for gear in sorted(seconds):
            per_row = seconds[gear] / gear.batch
            if gear.length not in least or per_row <= least[gear.length] * (1 - min_gain):
                least[gear.length] = per_row
                kept[gear] = seconds[gear]
        return GearTable(kept)

    @property
    def gears(self) -> tuple[Gear, ...]:
        """All gears, ascending by batch, then by length."""
        return tuple(self._seconds)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths that occur, ascending."""
        return self._lengths

    @property
    def longest(self) -> int:
        """Greatest length of a unit."""
        return self._lengths[-1]

    @property
    def rows(self) -> tuple[int, ...]:
        """Units that fill a call, for each batch size that occurs, ascending."""
        return self._rows

    def shape(self, rows: int, longest: int) -> Shape | None:
        """The cheapest gear that holds ``rows`` units of at most ``longest``, of equal ones the smallest; ``None`` if
        there is none, as not every length needs to have every batch size.
        """
        key = rows, bisect_left(self._lengths, longest)
        if key not in self._known:
            fitting = [gear for gear in self._seconds if gear.batch >= rows and gear.length >= longest]
            best = min(fitting, key=lambda gear: (self._seconds[gear], gear.batch * gear.length, gear), default=None)
            self._known[key] = None if best is None else Shape(*best)
        return self._known[key]

    def seconds(self, batch: int, length: int) -> float:
        """Estimated time of a call in that gear."""
        return self._seconds[Gear(batch, length)]

    def unit_seconds(self) -> dict[int, float]:
        """Time per unit by length, in the gear where it is least when full."""
        return {
            length: min(s / self._units(gear) for gear, s in self._seconds.items() if gear.length == length)
            for length in self._lengths
        }

    def of_length(self, length: int) -> GearTable:
        """The table of only the gears of that length, for units that must not be padded."""
        return GearTable({gear: s for gear, s in self._seconds.items() if gear.length == length}, self._max_units)

    def limited(self, max_units: int | None) -> GearTable:
        """The same gears with at most ``max_units`` units in a call."""
        return GearTable(self._seconds, max_units)

    def _units(self, gear: Gear) -> int:
        return gear.batch if self._max_units is None else min(gear.batch, self._max_units)


def gears_of(spec: GraphSpec, tensor: str, length_axis: int) -> tuple[Gear, ...]:
    """Gears of a graph as seen from one of its inputs, whose axis 0 is the batch.

    Args:
        spec: of the graph.
        tensor: name of the input.
        length_axis: which of its axes holds the lengths.

    Returns:
        Ascending; a single one if the input's sizes are fixed numbers; none if the graph takes any size.

    Raises:
        ConfigError: the input is not listed, or a gear does not name an axis of it.
    """
    dims = next((t.dims for t in spec.inputs if t.name == tensor), None)
    if dims is None or len(dims) <= max(length_axis, 0):
        raise ConfigError(f"{spec.file}: the graph needs an input {tensor!r} with {length_axis + 1} axes or more")
    batch, length = dims[0], dims[length_axis]
    if not spec.gears:
        return (Gear(batch, length),) if isinstance(batch, int) and isinstance(length, int) else ()
    return tuple(sorted({Gear(_size(spec, batch, gear), _size(spec, length, gear)) for gear in spec.gears}))


def _size(spec: GraphSpec, dim: Dim, gear: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim not in gear:
        raise ConfigError(f"{spec.file}: the gear {dict(gear)} does not say the size of the axis {dim!r}; add it")
    return gear[dim]


def describe(gears: Sequence[Gear]) -> str:
    """The gears in a few words, for logs and errors: ``1x32, 1x64, 4x64 (rows x length)``."""
    return f"{', '.join(map(str, gears))} (rows x length)"
