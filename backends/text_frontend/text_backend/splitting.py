"""Cutting a sequence into parts of bounded cost at the best places it offers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate


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


_BEST_FIRST = (Cut.CLAUSE, Cut.WORD, Cut.HARD)
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
    spent = [0, *accumulate(costs)]
    by_quality: dict[Cut, list[int]] = {quality: [] for quality in Cut}
    for at, cut in enumerate(cuts, 1):
        by_quality[cut].append(at)
    places = [(quality, by_quality[quality]) for quality in _BEST_FIRST]
    points: list[int] = []
    start = 0
    while True:
        # the first place where the part would cost too much, but an item is always taken
        end = max(bisect_right(spent, spent[start] + limit, start + 1) - 1, start + 1)
        if end >= len(costs):
            return points
        long_enough = bisect_left(spent, spent[start] + limit // _SHORTEST_SHARE, start + 1)
        start = _best_cut(places, start, end, long_enough)
        points.append(start)


def _best_cut(places: Sequence[tuple[Cut, Sequence[int]]], start: int, end: int, long_enough: int) -> int:
    """The last of the best places after ``start`` and up to ``end``."""
    for quality, positions in places:
        found = bisect_right(positions, end) - 1
        if found >= 0 and positions[found] >= (start + 1 if quality is Cut.HARD else long_enough):
            return positions[found]
    return end
