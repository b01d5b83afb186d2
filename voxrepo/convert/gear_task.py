"""What gears are planned for: lengths of a record, the cost of calls, how units may be cut, device memory. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from voxrepo.convert.call_cost import Cost
from voxrepo.convert.gears import DEVICE_BATCHES, MAX_GEARS, Gear, aligned
from voxrepo.convert.window_gears import FIRST_WINDOW_KEEPS_FRAMES, MAX_WINDOW_FRAMES


@dataclass(frozen=True)
class Windows:
    """A graph whose units may be cut; see :mod:`voxrepo.convert.window_gears`.

    Attributes:
        overlap_frames: computed and discarded on each side of a cut.
        max_frames: longest window considered.
    """

    overlap_frames: int
    max_frames: int = MAX_WINDOW_FRAMES

    @property
    def first_frames(self) -> int:
        """The shortest window that any plan has: the first piece of a stream."""
        return aligned(2 * self.overlap_frames + FIRST_WINDOW_KEEPS_FRAMES)


@dataclass(frozen=True)
class GearMemory:
    """Device memory of a graph: what is allocated for every gear at load, and what calls of all gears share.

    Attributes:
        weights_bytes: constant.
        io_bytes_per_unit: of input and output buffers, per row and unit of length; every gear has its own.
        work_bytes_per_unit: of intermediate results, per row and unit of length; the largest gear decides.
        limit_bytes: that must not be exceeded; ``None`` for no limit.
    """

    weights_bytes: int = 0
    io_bytes_per_unit: int = 0
    work_bytes_per_unit: int = 0
    limit_bytes: int | None = None

    def bytes_of(self, gears: Sequence[Gear]) -> int:
        """Memory that a graph with these gears takes."""
        sizes = [gear.batch * gear.length for gear in gears]
        return self.weights_bytes + self.io_bytes_per_unit * sum(sizes) + self.work_bytes_per_unit * max(sizes)

    def allows(self, gears: Sequence[Gear]) -> bool:
        """Whether they are within the limit."""
        return self.limit_bytes is None or self.bytes_of(gears) <= self.limit_bytes


@dataclass(frozen=True)
class GearTask:
    """What a plan is made for.

    Attributes:
        lengths: of the units of the record, at least one, in any order: ids, frames, or frames of segments that may be
            cut.
        cost: estimated time of a call.
        max_gears: number of gears at most.
        batches: batch sizes that may be used; 1 is always among them.
        limit: largest batch x length; a unit alone is never refused by it.
        longest: longest unit that must be possible, if longer than the record; not for windows.
        windows: how units may be cut; ``None`` if they may not.
        memory: of the device.
    """

    lengths: Sequence[int]
    cost: Cost
    max_gears: int = MAX_GEARS
    batches: Sequence[int] = DEVICE_BATCHES
    limit: int | None = None
    longest: int | None = None
    windows: Windows | None = None
    memory: GearMemory = field(default_factory=GearMemory)
