"""Calls of stages for a part of an utterance: names of their request parameters, and what both sides must agree on.

A segment's audio is fetched from its vocoder in pieces. A *piece call* holds some of the segment's frames and says
where they lie; the answer is the audio of consecutive windows of the whole segment's plan, the first of which keeps
from ``keep_from_frame``, as many as lie wholly inside the frames sent. It is equal to the bit to the same samples of
one call with all frames. No pause is appended.
"""

from __future__ import annotations

FIRST_SEGMENT = "first_segment"
"""Acoustic: index of the call's first segment within its utterance. Noise is drawn by seed and that index."""

SEGMENT_FRAMES = "segment_frames"
"""Vocoder: frames of the whole segment."""
FIRST_FRAME = "first_frame"
"""Vocoder: position in the segment of the first frame sent."""
KEEP_FROM_FRAME = "keep_from_frame"
"""Vocoder: first frame whose audio is wanted; a window of the plan keeps from there."""
PIECE_PARAMETERS = (SEGMENT_FRAMES, FIRST_FRAME, KEEP_FROM_FRAME)
"""All three make a vocoder call a piece call."""

MAX_SEGMENT_FRAMES = 100_000
"""Of a segment fetched in pieces: twenty minutes; planning windows takes time and memory by it."""


def opening_frames(segment_frames: int, first_window_frames: int, window_frames: int) -> int:
    """Length of the window that begins a segment, where plans begin with a short one.

    A segment of up to twice the short window is not cut: its audio is there nearly as soon, and the overlap of another
    window would be up to half of its work.

    Args:
        segment_frames: of the whole segment.
        first_window_frames: the short window; ``window_frames`` where there is none.
        window_frames: all other windows.
    """
    if segment_frames <= min(2 * first_window_frames, window_frames):
        return segment_frames
    return first_window_frames


def pause_samples(pause_ms: int, sample_rate_hz: int) -> int:
    """Samples of the silence that follows a segment."""
    return round(pause_ms * sample_rate_hz / 1000)
