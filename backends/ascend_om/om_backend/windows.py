"""Cutting a sequence of frames into windows whose joined outputs equal one run over the whole. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from voxrepo_contract.pieces import opening_frames


@dataclass(frozen=True)
class Window:
    """Frames [start, stop) go in; of the output, frames [keep_start, keep_stop) are kept (absolute positions)."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int

    @property
    def frames(self) -> int:
        """Frames that go in."""
        return self.stop - self.start

    def counted_from(self, frame: int) -> Window:
        """The same window, with positions that count from ``frame``."""
        return Window(self.start - frame, self.stop - frame, self.keep_start - frame, self.keep_stop - frame)


def plan_windows(frames: int, window: int, overlap: int, first: int | None = None, least: int = 1) -> list[Window]:
    """Windows of ``window`` frames that cover ``frames``, each frame kept once.

    ``overlap`` is the receptive field of the graph to each side: an output frame is exact if that many true frames
    surround it, or if the sequence truly ends there, since then the graph's own zero padding is the right one.
    Hence the first window starts at 0, the last ends at ``frames`` (it is moved left, not padded), and a sequence
    of at most ``window`` frames is one window of its own length.

    With ``first``, what begins a sequence is short, so that its audio is there soon (see
    :func:`voxrepo_contract.pieces.opening_frames`). To make up for the overlap that this costs, the last window then
    has its own length instead of being moved left.

    Args:
        frames: length of the sequence, at least 1.
        window: frames per window, more than twice ``overlap``.
        overlap: frames discarded at each inner edge.
        first: frames of the first window, more than twice ``overlap`` and at most ``window``; ``None`` for ``window``.
        least: with ``first``, the shortest that the last window may be.
    """
    if frames < 1 or window <= 2 * overlap:
        raise ValueError(f"cannot cut {frames} frames into windows of {window} with overlap {overlap}")
    if first is not None:
        return _plan_from(opening_frames(frames, first, window), frames, window, overlap, least)
    if frames <= window:
        return [Window(0, frames, 0, frames)]
    windows: list[Window] = []
    start = kept = 0
    while start + window < frames:
        keep_stop = start + window - overlap
        windows.append(Window(start, start + window, kept, keep_stop))
        kept = keep_stop
        start += window - 2 * overlap
    windows.append(Window(frames - window, frames, kept, frames))
    return windows


def _plan_from(first: int, frames: int, window: int, overlap: int, least: int) -> list[Window]:
    if frames <= first:
        return [Window(0, frames, 0, frames)]
    if not 2 * overlap < first <= window:
        raise ValueError(f"cannot begin windows of {window} with one of {first} and overlap {overlap}")
    windows = [Window(0, first, 0, first - overlap)]
    while (start := (kept := windows[-1].keep_stop) - overlap) + window < frames:
        windows.append(Window(start, start + window, kept, start + window - overlap))
    windows.append(Window(min(start, max(0, frames - least)), frames, kept, frames))
    return windows


class WindowPlanner:
    """Windows whose sizes are gear lengths, at least total cost. The plan depends on the number of frames alone.

    Windows of sizes ``L1..Lk`` cover ``L1 + ... + Lk - 2 overlap (k - 1)`` frames, so ``frames`` are covered when the
    useful parts ``Li - 2 overlap`` sum to ``frames - 2 overlap`` or more. The cheapest choice is a covering knapsack,
    solved exactly by dynamic programming over useful frames; of equal ones it has the fewest windows. Sizes ascend,
    so that the first audio of a sequence is there soon. The last window is moved left until its true frames fill it, so
    a window is padded only where the whole sequence is shorter than it. As no window of a cheapest choice is
    superfluous, all but the last end before the sequence does, in whichever order.

    Args:
        cost_by_length: cost of a window (any unit) by its size in frames.
        overlap: receptive field to each side in frames, as in :func:`plan_windows`.
        may_pad: whether a sequence shorter than a window may be padded, since the graph is told its true length.
    """

    def __init__(self, cost_by_length: Mapping[int, float], overlap: int, *, may_pad: bool) -> None:
        if not cost_by_length or overlap < 0 or min(cost_by_length) < 1 or min(cost_by_length.values()) <= 0:
            raise ValueError("a plan needs window sizes and their costs, all positive, and an overlap of 0 or more")
        self._cost = dict(sorted(cost_by_length.items(), reverse=True))
        self._overlap = overlap
        self._may_pad = may_pad
        # by useful frames still to cover: (cost, windows, size of one of them)
        self._best: dict[tuple[int, ...], list[tuple[float, int, int]]] = {}

    def plan(self, frames: int) -> list[Window]:
        """Windows for a sequence of ``frames``; the size of each is a gear length or, where padded, below one.

        Raises:
            ValueError: ``frames`` is below 1, or no choice of windows covers it exactly.
        """
        sizes = self._sizes(frames)
        windows: list[Window] = []
        start = kept = 0
        for number, size in enumerate(sizes):
            last = number == len(sizes) - 1
            if last:
                start = max(0, frames - size)
            keep_stop = frames if last else start + size - self._overlap
            windows.append(Window(start, min(start + size, frames), kept, keep_stop))
            kept = keep_stop
            start = keep_stop - self._overlap
        return windows

    def _sizes(self, frames: int) -> list[int]:
        if frames < 1:
            raise ValueError(f"cannot cut {frames} frames into windows")
        choices: list[tuple[float, int, list[int]]] = []
        alone = [size for size in self._cost if size == frames or (size > frames and self._may_pad)]
        if alone:
            size = min(alone, key=lambda size: (self._cost[size], size))
            choices.append((self._cost[size], 1, [size]))
        # a window that is moved left must find that many frames
        fitting = tuple(size for size in self._cost if 2 * self._overlap < size < frames)
        if fitting:
            many = self._cover(frames - 2 * self._overlap, fitting)
            choices.append((sum(self._cost[size] for size in many), len(many), many))
        if not choices:
            raise ValueError(f"no choice of windows of {sorted(self._cost)} frames covers {frames} frames exactly")
        return min(choices)[2]

    def _cover(self, useful: int, sizes: tuple[int, ...]) -> list[int]:
        best = self._best.setdefault(sizes, [(0.0, 0, 0)])
        steps = [(size - 2 * self._overlap, self._cost[size], size) for size in sizes]
        while len(best) <= useful:
            left = len(best)
            options = []
            for step, cost, size in steps:
                before = best[max(0, left - step)]
                options.append((before[0] + cost, before[1] + 1, size))
            best.append(min(options, key=lambda option: (option[0], option[1], -option[2])))
        chosen: list[int] = []
        while useful > 0:
            size = best[useful][2]
            chosen.append(size)
            useful -= size - 2 * self._overlap
        return sorted(chosen)
