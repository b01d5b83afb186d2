"""Cutting a sequence into parts of bounded cost at the best places it offers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class Cut(IntEnum):
    """How good it is to cut after an item; higher is better."""

    HARD = 0
    """Inside a word: only where nothing else is left."""
    WORD = 1
    """Between two words."""
    CLAUSE = 2
    """After a clause mark or a joint of two clauses."""
    NEVER = -1
    """The next item belongs to this one (a combining mark, a length mark)."""


_SHORTEST_SHARE = 4
# A better place is not worth a part shorter than limit / 4: "Well, <400 words>" is cut near the limit instead.


def cut_points(costs: Sequence[int], cuts: Sequence[Cut], limit: int) -> list[int]:
    """Positions at which to cut so that no part costs more than ``limit``.

    Greedy from the left: each part ends at the last clause cut that fits, else at the last word cut, else at the
    last item that fits. Runs in linear time, as each part is gone over at most twice.

    Args:
        costs: cost of each item, all >= 0.
        cuts: quality of a cut after each item.
        limit: highest cost of a part, > 0. A part of one item may cost more, since it cannot be cut.

    Returns:
        Ascending indices; a cut at ``i`` separates item ``i - 1`` from item ``i``. Neither 0 nor ``len(costs)``.
    """
    points: list[int] = []
    start = 0
    while True:
        end, spent = start, 0
        while end < len(costs) and (end == start or spent + costs[end] <= limit):
            spent += costs[end]
            end += 1
        if end == len(costs):
            return points
        start = _best_cut(costs, cuts, start, end, limit // _SHORTEST_SHARE)
        points.append(start)


def _best_cut(costs: Sequence[int], cuts: Sequence[Cut], start: int, end: int, shortest: int) -> int:
    last: dict[Cut, int] = {}
    spent = 0
    for index in range(start, end):
        spent += costs[index]
        if spent >= shortest or cuts[index] is Cut.HARD:
            last[cuts[index]] = index + 1
    for quality in (Cut.CLAUSE, Cut.WORD, Cut.HARD):
        if quality in last:
            return last[quality]
    return end
