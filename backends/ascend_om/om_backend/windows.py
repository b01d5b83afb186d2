"""Cutting a sequence of frames into windows whose joined outputs equal one run over the whole. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass


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


def plan_windows(frames: int, window: int, overlap: int) -> list[Window]:
    """Windows of ``window`` frames that cover ``frames``, each frame kept once.

    ``overlap`` is the receptive field of the graph to each side: an output frame is exact if that many true frames
    surround it, or if the sequence truly ends there, since then the graph's own zero padding is the right one.
    Hence the first window starts at 0, the last ends at ``frames`` (it is moved left, not padded), and a sequence
    of at most ``window`` frames is one window of its own length.

    Args:
        frames: length of the sequence, at least 1.
        window: frames per window, more than twice ``overlap``.
        overlap: frames discarded at each inner edge.
    """
    if frames < 1 or window <= 2 * overlap:
        raise ValueError(f"cannot cut {frames} frames into windows of {window} with overlap {overlap}")
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
