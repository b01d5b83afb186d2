"""Pure: which frames of a segment the vocoder gets next, and how many windows it runs at a time.

The vocoder plans its windows itself, from the length of the segment alone; see ``WindowedOptions``. Here it is only
decided how far the next call reaches. A call that reaches no window's end is impossible: what is sent holds at least
the window that begins where the audio so far ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from voxrepo_contract.pieces import opening_frames

STREAM_GROUPS = (1, 1, 2, 4)
"""Windows per call of a stream: small for a quick first piece, then larger for fewer calls. The last number stays.

They are upper limits, see :func:`windows_in_time`."""

MAX_GROUP_S = 0.05
"""Time of the vocoder that a stream's call may take beyond one window. A call that has begun is not stopped, so this is
about what the first piece of another stream waits for a place. Groups of four windows of 0.09 s on each of two cores
made first pieces wait for 0.2 s and let two of five among eight streams fall behind their playback."""

JOINED_GROUPS = (4,)
"""Windows per call where nobody hears the first piece before the last: about a sentence, so that each call to a busy
engine brings one forward."""


@dataclass(frozen=True)
class WindowSizes:
    """What must be known of a vocoder's windows, in frames.

    Attributes:
        window: the longest window.
        overlap: computed and discarded at each inner edge.
        first: the window that begins a segment; equal to ``window`` where plans have no shorter one.
    """

    window: int
    overlap: int
    first: int

    def __post_init__(self) -> None:
        if not 2 * self.overlap < self.first <= self.window:
            raise ValueError(f"no windows are like this: {self}")


@dataclass(frozen=True)
class Span:
    """Frames [start, stop) of a segment."""

    start: int
    stop: int


def next_span(segment_frames: int, kept: int, windows: int, sizes: WindowSizes) -> Span:
    """The frames to send for the audio that follows frame ``kept``.

    Args:
        segment_frames: length of the segment.
        kept: frames of it whose audio is there; below ``segment_frames``.
        windows: windows wanted.
        sizes: of the vocoder's windows.

    Returns:
        a span that holds ``windows`` windows of full size, or reaches the segment's end. It begins early enough for a
        last window that is moved left until its frames fill it.
    """
    if not 0 <= kept < segment_frames or windows < 1:
        raise ValueError(f"no frames follow frame {kept} of {segment_frames}")
    begin = max(kept - sizes.overlap, 0)
    nearest = sizes.window if kept else opening_frames(segment_frames, sizes.first, sizes.window)
    reach = nearest + (windows - 1) * (sizes.window - 2 * sizes.overlap)
    start = max(min(begin, segment_frames - sizes.window), 0)
    return Span(start, min(begin + reach, segment_frames))


def windows_in_time(windows: int, window_s: float) -> int:
    """At most ``windows``, at least 1, and else no more than take :data:`MAX_GROUP_S`.

    Args:
        windows: wanted.
        window_s: part of the vocoder's time that a window takes (with several instances, they share a window's time);
            0 while that is not known.
    """
    if window_s * windows <= MAX_GROUP_S:
        return windows
    return max(1, min(windows, int(MAX_GROUP_S / window_s)))


def group_sizes(groups: Sequence[int]) -> Iterator[int]:
    """Windows for each call of a request, over all its segments; the last number goes on for ever."""
    yield from groups
    while True:
        yield groups[-1]
