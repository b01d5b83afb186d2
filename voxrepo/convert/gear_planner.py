"""The gears of least expected time for a record of units, under a limit on their number and on device memory. Pure.

Where every unit runs alone, the best lengths are found exactly, by dynamic programming (:func:`voxrepo.convert.gears.
best_lengths`). With several batch sizes, and with segments that may be cut into windows, the number of plans explodes;
there the planner looks at a family of plans and takes the best of them:

* lengths by dynamic programming, combined with the batch sizes, given up one after the other from several numbers of
  gears (``GRID``) downwards (:func:`voxrepo.convert.gears.shrink`);
* the best lengths for each set of batch sizes, all combined;
* at the numbers of ``GRID``, what comes of moving one length at a time;
* powers of two, as one would write them down without looking at any text; the best of them is what a plan is compared
  with.

A plan is chosen by its price (expected time, dearer where crowded calls are padded beyond ``MAX_PADDING``), among those
that take no more expected time than powers of two of the same number, and no more than the plan for one gear less. So a
plan is never worse than powers of two, and more gears never make it worse, whatever the approximation missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from voxrepo.convert.gear_plan import ONE_GEAR, PLANNED, POWERS_OF_TWO, UNPADDED, Expected, GearPlan, Way
from voxrepo.convert.gear_task import GearTask
from voxrepo.convert.gears import (
    ALIGN,
    CROWD,
    MAX_PADDING,
    PADDING_PRICE,
    Gear,
    Packer,
    aligned,
    aligned_record,
    best_lengths,
    pools_of,
    proposals,
)
from voxrepo.convert.window_gears import Cutter, window_proposals
from voxrepo_contract.emulated_om import MAX_GEARS as MOST_GEARS
from voxrepo_contract.errors import InvalidArgument

GRID = (1, 2, 4, 8, 16, 24, 48, MOST_GEARS)
"""Numbers of gears from which plans are shrunk; each costs a few tenths of a second to a few seconds."""

_ROUNDS = 3


def plan_gears(task: GearTask) -> GearPlan:
    """Choose gears; the same record in any order gives the same plan.

    Raises:
        ValueError: an argument is out of its range.
        InvalidArgument: not even one gear for the longest unit is within the memory; with numbers.
    """
    planner = _Planner(task)
    best, powers = planner.plan()
    one = (planner.smallest,)
    ways = [
        planner.way(PLANNED, best),
        planner.way(POWERS_OF_TWO, powers),
        planner.way(ONE_GEAR, one),
        Way(UNPADDED, (), planner.alone(), 0),
    ]
    return GearPlan(best, tuple(ways))


Gears = tuple[Gear, ...]


class _Planner:
    def __init__(self, task: GearTask) -> None:
        if not 1 <= task.max_gears <= MOST_GEARS or any(batch < 1 for batch in task.batches):
            raise ValueError(f"cannot plan {task.max_gears} gears (1 to {MOST_GEARS}) of batches {list(task.batches)}")
        self.task = task
        self.record = aligned_record(task.lengths, ALIGN)
        self.batches = sorted({1, *task.batches})
        windows = task.windows
        if windows is None:
            self.longest = aligned(max(task.longest or 1, self.record[-1]))
            self.recorded = self.record[-1]
        else:
            if windows.overlap_frames < 0:
                raise ValueError("an overlap cannot be negative")
            self.longest = self.recorded = max(windows.first_frames, windows.max_frames)
        # one gear holds everything, and is the smallest that does: for windows, the first of any plan
        self.smallest = Gear(1, self.longest if windows is None else windows.first_frames)
        # real lengths, so that the work that was asked for is not rounded up
        self._pools = pools_of(sorted(task.lengths))
        self._known: dict[Gears, Expected] = {}
        if not task.memory.allows([self.smallest]):
            needed, limit = task.memory.bytes_of([self.smallest]), task.memory.limit_bytes or 0
            raise InvalidArgument(
                f"one gear of {self.smallest.batch} x {self.smallest.length} takes {_mb(needed)} MB of device memory "
                f"({_mb(task.memory.weights_bytes)} MB of it weights) and the limit is {_mb(limit)} MB; give more "
                "memory, or allow only shorter units"
            )

    def plan(self) -> tuple[Gears, Gears]:
        """The plan, and the best powers of two of as many gears."""
        family = self._family()
        best: Gears = (self.smallest,)
        powers: Gears | None = None
        for count in range(1, self.task.max_gears + 1):
            for gears in self._powers(count):
                if powers is None or self._rank(gears) < self._rank(powers):
                    powers = gears
            bound = self.expected(best).unit_s
            options = [best, *(gears for gears, start in family.items() if start <= count)]
            if powers is not None:
                bound = min(bound, self.expected(powers).unit_s)
                options.append(powers)
            good = [gears for gears in options if self.expected(gears).unit_s <= bound]
            best = min(good, key=lambda gears: (self.expected(gears).price, *self._rank(gears)))
            if count in GRID:
                best = self._improved(best, bound)
        return best, powers or (self.smallest,)

    def _improved(self, gears: Gears, bound: float) -> Gears:
        """A few rounds of moving one gear at a time, as long as that helps and takes no more than ``bound``."""
        for _ in range(_ROUNDS):
            before = gears
            for gear in before:
                if gear == self.smallest or gear.length == self.longest or gear not in gears:
                    continue
                for length in (gear.length - 2 * ALIGN, gear.length - ALIGN, gear.length + ALIGN):
                    moved = Gear(gear.batch, length)
                    if length < ALIGN or moved in gears or gear.batch not in self._allowed(length, [gear.batch]):
                        continue
                    other = tuple(sorted({*gears, moved} - {gear}))
                    if not self.task.memory.allows(other) or not self._holds(other):
                        continue
                    found = self.expected(other)
                    if found.unit_s <= bound and found.price < self.expected(gears).price:
                        gears = other
                        break
            if gears == before:
                break
        return gears

    def _holds(self, gears: Gears) -> bool:
        """Whether the longest unit can be run alone; with windows, whether the first piece and all else can."""
        if self.task.windows is None:
            return any(gear.batch == 1 and gear.length >= self.longest for gear in gears)
        least = self.task.windows.first_frames
        alone = [gear.length for gear in gears if gear.batch == 1]
        return bool(alone) and max(alone) == max(gear.length for gear in gears) and min(alone) >= least

    def _rank(self, gears: Gears) -> tuple[float, float, int, Gears]:
        expected = self.expected(gears)
        return expected.unit_s, expected.padding, len(gears), gears

    def _family(self) -> dict[Gears, int]:
        """Plans, and the number of gears from which on each is looked at.

        That number does not depend on the limit, so that a higher one looks at the same plans and more.
        """
        task = self.task
        found: dict[Gears, int] = {}

        def note(gears: Gears, start: int) -> None:
            if task.memory.allows(gears):
                found[gears] = min(found.get(gears, start), start)

        last = next(top for top in GRID if top >= task.max_gears)
        for before, top in zip((0, *GRID), GRID, strict=False):
            if top > last:
                break
            limit = task.limit
            if task.windows is None:
                made = proposals(self.record, task.cost, top, self.batches, longest=self.longest, limit=limit)
            else:
                overlap, longest = task.windows.overlap_frames, task.windows.max_frames
                made = window_proposals(
                    self.record, overlap, task.cost, top, self.batches, max_window=longest, limit=limit
                )
            for gears in made:
                note(tuple(gears), max(len(gears), before + 1))
        if task.windows is None:
            for sizes in self._batch_sets():
                for count in range(1, task.max_gears // len(sizes) + 1):
                    note(self._combined(self._best_lengths(count, sizes), sizes), count * len(sizes))
        return dict(sorted(found.items()))

    def _best_lengths(self, count: int, sizes: Sequence[int]) -> list[int]:
        def unit_s(length: int) -> float:
            return min(self.task.cost.seconds(batch, length) / batch for batch in self._allowed(length, sizes))

        return best_lengths(self.record, count, unit_s, self.longest)

    def _batch_sets(self) -> Iterator[tuple[int, ...]]:
        larger = [batch for batch in self.batches if batch > 1]
        for size in range(len(larger) + 1):
            for some in combinations(larger, size):
                yield (1, *some)

    def _allowed(self, length: int, sizes: Sequence[int]) -> list[int]:
        limit = self.task.limit
        return [b for b in sizes if b == 1 or (length <= self.recorded and (limit is None or b * length <= limit))]

    def _combined(self, lengths: Sequence[int], sizes: Sequence[int]) -> Gears:
        return tuple(sorted(Gear(batch, length) for length in lengths for batch in self._allowed(length, sizes)))

    def _powers(self, count: int) -> Iterator[Gears]:
        """Powers of two for just so many gears: the longest lengths that hold everything, for each set of batches."""
        windows = self.task.windows
        top = 1 << (self.longest - 1).bit_length()
        least = ALIGN
        if windows is not None:
            top, least = 1 << (self.longest.bit_length() - 1), windows.first_frames
            top = max(top, 1 << (least - 1).bit_length())
        lengths = [top]
        while lengths[-1] // 2 >= least:
            lengths.append(lengths[-1] // 2)
        for sizes in self._batch_sets():
            for some in range(1, len(lengths) + 1):
                gears = tuple(
                    sorted(
                        Gear(batch, length) for length in lengths[:some] for batch in self._allowed_power(length, sizes)
                    )
                )
                if len(gears) == count and self.task.memory.allows(gears):
                    yield gears

    def _allowed_power(self, length: int, sizes: Sequence[int]) -> list[int]:
        # the power above the record's end holds the record's longest, so that batches of it are of use
        reach = self.recorded if length // 2 >= self.recorded else max(self.recorded, length)
        limit = self.task.limit
        return [b for b in sizes if b == 1 or (length <= reach and (limit is None or b * length <= limit))]

    def expected(self, gears: Gears) -> Expected:
        """What the record takes in these gears."""
        if gears not in self._known:
            packer = Packer(gears, self.task.cost)
            units_of = self._cutting(gears)
            seconds = work = crowded = crowd_asked = 0.0
            for pool in self._pools:
                packed = packer.pack([unit for length in pool for unit in units_of(length)])
                seconds += packed.seconds
                work += packed.work
                if len(pool) >= CROWD:
                    crowded += packed.work
                    crowd_asked += sum(pool)
            self._known[gears] = self._expected(seconds, work, crowded / crowd_asked)
        return self._known[gears]

    def alone(self) -> Expected:
        """What the record takes if every unit runs alone at just its length."""
        units = [length for pool in self._pools for length in pool]
        return self._expected(sum(self.task.cost.seconds(1, length) for length in units), float(sum(units)), 1.0)

    def _expected(self, seconds: float, work: float, crowded_padding: float) -> Expected:
        units, asked = sum(map(len, self._pools)), sum(map(sum, self._pools))
        dearer = 1 + PADDING_PRICE * max(0.0, crowded_padding - MAX_PADDING)
        return Expected(seconds / units, work / asked, seconds / units * dearer)

    def _cutting(self, gears: Gears) -> Callable[[int], list[int]]:
        if self.task.windows is None:
            return lambda length: [length]
        least: dict[int, float] = {}
        for gear in gears:
            unit_s = self.task.cost.seconds(gear.batch, gear.length) / gear.batch
            least[gear.length] = min(unit_s, least.get(gear.length, unit_s))
        return Cutter(sorted(least), self.task.windows.overlap_frames, least.__getitem__).cut

    def way(self, name: str, gears: Gears) -> Way:
        """A row of the comparison."""
        return Way(name, gears, self.expected(gears), self.task.memory.bytes_of(gears))


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f}"
