"""Packing: which units of work share one call of a graph. Pure functions.

Triton's batcher decides when to start and with which requests; packing decides how their units (segments of text,
windows of frames) are grouped into calls, so that the estimated time is least. A unit's result does not depend on
its group, apart from rounding in kernels that depend on the batch size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CallCost:
    """Estimated time of a call by batch size and padded length.

    ``seconds_by_batch`` holds measured times at ``reference_length``; times scale linearly with length, which is
    what convolutions and matrix products over time do. Batch sizes not listed are not used.
    """

    seconds_by_batch: Mapping[int, float]
    reference_length: int

    def __post_init__(self) -> None:
        if 1 not in self.seconds_by_batch:
            raise ValueError("the cost of batch 1 is needed, since any unit must be able to run alone")
        if min(self.seconds_by_batch.values()) <= 0 or self.reference_length <= 0:
            raise ValueError("costs and the reference length must be positive")

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes in use, ascending."""
        return tuple(sorted(self.seconds_by_batch))

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


def pack(lengths: Sequence[int], cost: CallCost) -> list[list[int]]:
    """Group units into calls of least total estimated time.

    Units are sorted by length, since in a best grouping every group is a run of that order; the best cut of the
    order is found by dynamic programming over it, O(units x batch sizes). Deterministic: equal lengths keep
    their order.

    Args:
        lengths: length of each unit, in the axis that is padded.
        cost: estimated time of a call.

    Returns:
        Groups of unit indices; every index appears once. Groups are ordered by their smallest index, indices in a
        group ascend.
    """
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    batches = cost.batches
    best = [0.0]
    taken = [0]
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        choices = [(best[end - batch] + cost.seconds(batch, longest), batch) for batch in batches if batch <= end]
        seconds, batch = min(choices)
        best.append(seconds)
        taken.append(batch)
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(sorted(order[end - taken[end] : end]))
        end -= taken[end]
    return sorted(groups)


def shortest_first(groups: Sequence[Sequence[int]], work: Sequence[int]) -> list[list[int]]:
    """Order calls so that requests with little work are done first and do not wait for long ones beside them.

    Args:
        groups: unit indices of each call.
        work: for each unit, the work of its whole request, in any unit.

    Returns:
        The same groups, ordered by the least work in them, then by their first unit.
    """
    return sorted((list(group) for group in groups), key=lambda group: (min(work[index] for index in group), group))
