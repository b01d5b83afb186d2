"""Packing: which units of work share one call of a graph. Pure functions.

Triton's batcher decides when to start and with which requests; packing decides how their units (segments of text,
windows of frames) are grouped into calls, so that the estimated time is least. A unit's result does not depend on
its group, apart from rounding in kernels that depend on the batch size.

What a call costs and which sizes it may have is known by a :class:`CallTable`: :class:`CallCost` for graphs that take
any size, :class:`om_backend.gears.GearTable` for graphs built for certain ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Shape(NamedTuple):
    """Size of a call: rows, and the length to which they are padded."""

    batch: int
    length: int


@dataclass(frozen=True, order=True)
class Call:
    """One call of a graph.

    Attributes:
        units: indices of the units in it, ascending; unit ``units[row]`` is in that row.
        batch: rows of the call; rows beyond the units are zeros.
        length: length to which every row is padded.
    """

    units: tuple[int, ...]
    batch: int
    length: int


class CallTable(Protocol):
    """Sizes that a graph's calls may have, and their estimated time.

    The time of ``shape`` must be monotone: more rows or a greater length never cost less. :func:`pack` relies on it.
    """

    @property
    def rows(self) -> tuple[int, ...]:
        """Numbers of units worth putting into one call, ascending."""
        ...

    @property
    def pads_rows(self) -> bool:
        """Whether a call may hold fewer units than any of ``rows``, filled up with zero rows."""
        ...

    @property
    def longest(self) -> int | None:
        """Greatest length of a unit; ``None`` if there is no limit."""
        ...

    def shape(self, rows: int, longest: int) -> Shape | None:
        """The cheapest call that takes ``rows`` units, the longest of which has length ``longest``; ``None`` if the
        graph has no such call.
        """
        ...

    def seconds(self, batch: int, length: int) -> float:
        """Estimated time of a call of that shape."""
        ...


@dataclass(frozen=True)
class CallCost:
    """Estimated time of a call by batch size and padded length, for graphs that take any size.

    ``seconds_by_batch`` holds measured times at ``reference_length``; times scale linearly with length, which is
    what convolutions and matrix products over time do. Batch sizes not listed are not used.
    """

    seconds_by_batch: Mapping[int, float]
    reference_length: int

    pads_rows = False
    longest = None

    def __post_init__(self) -> None:
        if 1 not in self.seconds_by_batch:
            raise ValueError("the cost of batch 1 is needed, since any unit must be able to run alone")
        if min(self.seconds_by_batch.values()) <= 0 or self.reference_length <= 0:
            raise ValueError("costs and the reference length must be positive")

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes in use, ascending."""
        return tuple(sorted(self.seconds_by_batch))

    @property
    def rows(self) -> tuple[int, ...]:
        """See :class:`CallTable`."""
        return self.batches

    def shape(self, rows: int, longest: int) -> Shape:
        """Exactly the units: nothing is padded beyond the longest of them."""
        return Shape(rows, longest)

    def seconds(self, batch: int, length: int) -> float:
        """Estimated time of one call of ``batch`` rows padded to ``length``."""
        return self.seconds_by_batch[batch] * length / self.reference_length

    @staticmethod
    def per_call(max_batch: int) -> CallCost:
        """A cost that depends on the padded length and not on the batch: pack as full as possible."""
        return CallCost(dict.fromkeys(range(1, max_batch + 1), 1.0), reference_length=1)

    @staticmethod
    def measured(seconds_by_batch: Mapping[int, float], reference_length: int, min_gain: float) -> CallCost:
        """Keep the batch sizes whose time per row is at least ``min_gain`` (0..1) below that of batch 1.

        Kernels differ by batch size and so do the last bits of a result; a batch must pay for that.
        """
        alone = seconds_by_batch[1]
        kept = {b: s for b, s in seconds_by_batch.items() if b == 1 or s / b <= alone * (1 - min_gain)}
        return CallCost(kept, reference_length)


def pack(lengths: Sequence[int], table: CallTable) -> list[Call]:
    """Group units into calls of least total estimated time.

    Exact. Units are sorted by length, since in a best grouping every call is a run of that order (exchanging units so
    that calls become runs shortens or keeps the longest unit of each). Where rows may be padded, every call but the
    one with the shortest units can be full: a gap in it is filled with units of shorter calls, which only get
    cheaper. The best cut of the order is found by dynamic programming over it, O(units x numbers of rows).
    Deterministic: equal lengths keep their order, equal times prefer fewer rows.

    Args:
        lengths: length of each unit, in the axis that is padded; none above ``table.longest``.
        table: sizes and times of calls.

    Returns:
        Calls in which every unit appears once, ordered by their units.

    Raises:
        ValueError: a unit is longer than the table allows; it has to be refused or cut before.
    """
    if table.longest is not None and lengths and max(lengths) > table.longest:
        raise ValueError(f"a unit of length {max(lengths)} fits into no call; the longest takes {table.longest}")
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    known: dict[tuple[int, int], float | None] = {}
    best = [0.0]
    taken = [0]
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        choices: list[tuple[float, int]] = []
        for rows in table.rows:
            if rows > end and not table.pads_rows:
                break
            count = min(rows, end)
            if (count, longest) not in known:
                shape = table.shape(count, longest)
                known[count, longest] = None if shape is None else table.seconds(*shape)
            seconds = known[count, longest]
            if seconds is not None:
                choices.append((best[end - count] + seconds, count))
            if rows >= end:
                break
        least, count = min(choices)
        best.append(least)
        taken.append(count)
    calls: list[Call] = []
    end = len(order)
    while end:
        shape = table.shape(taken[end], lengths[order[end - 1]])
        assert shape is not None
        calls.append(Call(tuple(sorted(order[end - taken[end] : end])), *shape))
        end -= taken[end]
    return sorted(calls)


def shortest_first(calls: Sequence[Call], work: Sequence[int]) -> list[Call]:
    """Order calls so that requests with little work are done first and do not wait for long ones beside them.

    Args:
        calls: as :func:`pack` returns them.
        work: for each unit, the work of its whole request, in any unit.

    Returns:
        The same calls, ordered by the least work in them, then by their first unit.
    """
    return sorted(calls, key=lambda call: (min(work[index] for index in call.units), call.units))
