"""Gears of a graph that runs in windows. Pure functions.

A segment longer than a window is cut into several, whose overlaps are computed and discarded; a shorter one is padded.
Long windows waste less on overlaps, short ones less on padding. The window lengths are chosen greedily: each next one
is that which saves most on the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from voxrepo.convert.call_cost import Cost
from voxrepo.convert.gears import ALIGN, DEVICE_BATCHES, MAX_GEARS, Gear, aligned, shrink

MAX_WINDOW_FRAMES = 512
"""Longest window considered: about six seconds, after which joins cost less than the memory does."""
FIRST_WINDOW_KEEPS_FRAMES = 24
"""The shortest window always keeps at least this many frames, about 0.3 s: the first piece of a stream."""
_STEP = 2 * ALIGN


def cut(frames: int, windows: Sequence[int], overlap: int, unit_s: Callable[[int], float]) -> list[int]:
    """Window lengths of least total time that cover a segment: one that holds it all, or several that overlap.

    Windows ``L1..Lk`` cover ``L1 + ... + Lk - 2 overlap (k - 1)`` frames.

    Raises:
        ValueError: no window is longer than twice the overlap, and none holds the segment.
    """
    return Cutter(windows, overlap, unit_s).cut(frames)


class Cutter:
    """Cuts segments; what it has worked out for one it keeps for the next.

    Frames are counted in blocks of ``ALIGN``, rounded up for segments and down for what a window covers.
    """

    def __init__(self, windows: Sequence[int], overlap: int, unit_s: Callable[[int], float]) -> None:
        self._overlap = overlap
        self._seconds = {window: unit_s(window) for window in sorted(windows)}
        self._steps = [
            ((window - 2 * overlap) // ALIGN, seconds, window)
            for window, seconds in self._seconds.items()
            if window - 2 * overlap >= ALIGN
        ]
        self._best: list[tuple[float, int]] = [(0.0, 0)]

    def seconds(self, frames: int) -> float:
        """Least time for a segment."""
        many = self._many(frames)
        return min(self._alone(frames)[0], self._best[many][0] if many else float("inf"))

    def cut(self, frames: int) -> list[int]:
        """See :func:`cut`."""
        alone_s, alone = self._alone(frames)
        left = self._many(frames)
        if not left or alone_s <= self._best[left][0]:
            if not alone:
                raise ValueError(f"no windows of {sorted(self._seconds)} frames cover {frames}")
            return [alone]
        chosen = []
        while left > 0:
            window = self._best[left][1]
            chosen.append(window)
            left -= (window - 2 * self._overlap) // ALIGN
        return chosen

    def _alone(self, frames: int) -> tuple[float, int]:
        return min(((s, window) for window, s in self._seconds.items() if window >= frames), default=(float("inf"), 0))

    def _many(self, frames: int) -> int:
        """Fills the table as far as needed; blocks to cover, 0 if several windows make no sense."""
        if not self._steps or frames <= 2 * self._overlap:
            return 0
        blocks = -(-(frames - 2 * self._overlap) // ALIGN)
        while len(self._best) <= blocks:
            left = len(self._best)
            self._best.append(min((self._best[max(0, left - step)][0] + s, window) for step, s, window in self._steps))
        return blocks


def propose_window_gears(
    frames: Sequence[int],
    overlap: int,
    cost: Cost,
    max_gears: int = MAX_GEARS,
    batches: Sequence[int] = DEVICE_BATCHES,
    *,
    limit: int | None = None,
    max_window: int = MAX_WINDOW_FRAMES,
) -> list[Gear]:
    """Gears of least expected time for a record of segments that may be cut into windows.

    Args:
        frames: of each segment of the record, at least one.
        overlap: frames computed and discarded on each side of a cut.
        cost: estimated time of a call.
        max_gears: number of gears at most.
        batches: batch sizes that may be used; 1 is always among them.
        limit: largest batch x frames, from the device's memory.
        max_window: longest window that may be chosen.

    Returns:
        Gears in ascending order, 1 to ``max_gears``; any segment can be covered by them.

    Raises:
        ValueError: an argument is out of its range.
    """
    return window_proposals(
        frames, overlap, cost, max_gears, batches, limit=limit, max_window=max_window, least=max_gears
    )[0]


def window_proposals(
    frames: Sequence[int],
    overlap: int,
    cost: Cost,
    max_gears: int = MAX_GEARS,
    batches: Sequence[int] = DEVICE_BATCHES,
    *,
    limit: int | None = None,
    max_window: int = MAX_WINDOW_FRAMES,
    least: int = 1,
) -> list[list[Gear]]:
    """What :func:`propose_window_gears` gives, and smaller plans that came of it, down to ``least`` gears."""
    if not frames or min(frames) < 1 or overlap < 0:
        raise ValueError("a record of segments needs at least one, all of them positive")
    first = aligned(2 * overlap + FIRST_WINDOW_KEEPS_FRAMES)
    top = max(first, max_window)
    record = Counter(sorted(aligned(n) for n in frames))
    known: dict[tuple[float, ...], list[int]] = {}

    def greedy(unit_s: Callable[[int], float]) -> list[int]:
        """Windows in the order in which they are worth having; the first is the one that any plan has."""
        key = tuple(unit_s(window) for window in (first, top))
        if key not in known:
            candidates = list(range(first + _STEP, top + 1, _STEP)) or [first]
            chosen: list[int] = [first]
            while len(chosen) < max_gears and len(chosen) <= len(candidates):

                def total_s(window: int, chosen: list[int] = chosen) -> float:
                    cutter = Cutter([*chosen, window], overlap, unit_s)
                    return sum(cutter.seconds(length) * count for length, count in record.items())

                chosen.append(min((c for c in candidates if c not in chosen), key=lambda c: (total_s(c), c)))
            known[key] = chosen
        return known[key]

    def lengths_for(count: int, unit_s: Callable[[int], float]) -> list[int]:
        return sorted(greedy(unit_s)[:count])

    def units_for(windows: Sequence[int]) -> list[int]:
        cutter = Cutter(windows, overlap, lambda window: cost.seconds(1, window))
        return [window for length in record.elements() for window in cutter.cut(length)]

    return shrink(lengths_for, units_for, top, cost, max_gears, batches, limit, [first], least)
