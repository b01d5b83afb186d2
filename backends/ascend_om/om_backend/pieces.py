"""Piece calls of a vocoder: some frames of a segment in, the audio of the windows that they hold out.

See :mod:`voxrepo_contract.pieces` for the contract. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from om_backend.job import Job
from om_backend.windows import Window
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.pieces import (
    FIRST_FRAME,
    KEEP_FROM_FRAME,
    MAX_SEGMENT_FRAMES,
    PIECE_PARAMETERS,
    SEGMENT_FRAMES,
)


@dataclass(frozen=True)
class Piece:
    """Which part of a segment a call holds, in frames.

    Attributes:
        segment_frames: of the whole segment.
        first_frame: position of the first frame sent.
        keep_from_frame: first frame whose audio is wanted.
        sent_frames: frames sent.
    """

    segment_frames: int
    first_frame: int
    keep_from_frame: int
    sent_frames: int

    @property
    def stop_frame(self) -> int:
        """Position behind the last frame sent."""
        return self.first_frame + self.sent_frames


def read_piece(job: Job, sent_frames: Sequence[int]) -> Piece | None:
    """What the request's parameters say of its part; ``None`` if it holds whole segments.

    Args:
        job: the request.
        sent_frames: its ``frame_lengths``.

    Raises:
        InvalidArgument: a parameter is missing, no whole number or out of range, or several segments were sent.
    """
    given = [name for name in PIECE_PARAMETERS if job.parameters.get(name) is not None]
    if not given:
        return None
    missing = [name for name in PIECE_PARAMETERS if name not in given]
    if missing:
        raise InvalidArgument(f"parameter {missing[0]!r} is missing beside {given[0]!r}; a piece needs all three")
    if len(sent_frames) != 1:
        raise InvalidArgument(f"frame_lengths: a piece is of one segment, got {len(sent_frames)}")
    sent = int(sent_frames[0])
    segment = job.whole_number(SEGMENT_FRAMES, 1, low=1, high=MAX_SEGMENT_FRAMES)
    if sent > segment:
        raise InvalidArgument(f"frame_lengths: {sent} frames were sent of a segment of {segment} ({SEGMENT_FRAMES})")
    first = job.whole_number(FIRST_FRAME, 0, low=0, high=segment - sent)
    keep_from = job.whole_number(KEEP_FROM_FRAME, 0, low=first, high=first + sent - 1)
    return Piece(segment, first, keep_from, sent)


def windows_of(piece: Piece, plan: Sequence[Window], planned_frames: int) -> list[Window]:
    """The windows of the segment's plan that the piece can run, in order.

    Args:
        piece: the part.
        plan: windows of the whole segment.
        planned_frames: frames that the plan covers; more than the segment has where it is lengthened for the graph,
            and then known with the segment's last frame.

    Returns:
        One window or more; the first keeps from ``piece.keep_from_frame``.

    Raises:
        InvalidArgument: no window keeps from there, or the frames sent do not hold it.
    """
    wanted = piece.keep_from_frame
    begin = next((index for index, window in enumerate(plan) if window.keep_start >= wanted), len(plan))
    if begin == len(plan) or plan[begin].keep_start != wanted:
        around = [window.keep_start for window in plan[max(0, begin - 1) : begin + 1]]
        raise InvalidArgument(
            f"parameter {KEEP_FROM_FRAME!r} is {wanted}, where no window of a segment of {piece.segment_frames} frames "
            f"begins to be kept; the nearest do at {' and '.join(map(str, around))}"
        )
    stop = planned_frames if piece.stop_frame == piece.segment_frames else piece.stop_frame
    held: list[Window] = []
    for window in plan[begin:]:
        if window.start < piece.first_frame or window.stop > stop:
            break
        held.append(window)
    if not held:
        missing = plan[begin]
        raise InvalidArgument(
            f"frames [{piece.first_frame}, {piece.stop_frame}) of {piece.segment_frames} were sent; the window that "
            f"keeps from frame {wanted} needs [{missing.start}, {min(missing.stop, piece.segment_frames)})"
        )
    return held
