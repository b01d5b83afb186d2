"""Which sizes a graph is built for. Pure functions.

A device wants fixed shapes, so every call is padded to a gear: a batch size and a length that exist in the graph.
More gears waste less work and cost compile time and device memory; Ascend's compiler takes at most 100 and advises
few. Lengths are chosen by dynamic programming over a record of lengths, more than can be kept; then, of all their
combinations with batch sizes, one after the other is given up, each time the one that is missed least. What is missed
is found by packing seeded pools of units from the record as the server would.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from voxrepo.convert.call_cost import Cost

MAX_GEARS = 24
"""Default limit per graph: compile time and device memory grow with every gear."""
DEVICE_BATCHES = (1, 2, 4, 8)
ALIGN = 8
"""Lengths are multiples of this: cube units work on blocks of 16, and records are never exact to one."""
MAX_CANDIDATES = 160
"""Lengths looked at; a record with more different ones is thinned to its quantiles."""

MAX_PADDING = 1.05
"""Padded work per real work that a plan should stay below where units share calls; what is above is dear."""
PADDING_PRICE = 10.0
"""Share by which a plan counts as slower per unit of padding above ``MAX_PADDING``."""

_POOL_SIZES = (1, 2, 4, 8, 16, 32)
_UNITS_PER_POOL_SIZE = 64
_SEED = 1
CROWD = 8
"""Units of a pool from which on its padding counts."""
_LADDER_GAP = 1.5
"""The last step before the longest length is at least by this factor below it."""
_START = 3
"""Gears to start from, as a multiple of those that may stay."""


@dataclass(frozen=True, order=True)
class Gear:
    """A size that a graph is built for: ``batch`` rows of ``length`` (ids or frames) each."""

    batch: int
    length: int


def aligned(length: int, align: int = ALIGN) -> int:
    """The next multiple of ``align``, at least one of it."""
    return max(1, -(-length // align)) * align


def best_lengths(lengths: Sequence[int], count: int, unit_s: Callable[[int], float], longest: int) -> list[int]:
    """At most ``count`` gear lengths of least total time for a record; exact over the candidates.

    Every unit goes to the shortest gear that holds it. Candidates are the lengths of the record, thinned to
    ``MAX_CANDIDATES`` quantiles.

    Args:
        lengths: the record, already aligned; not empty.
        count: number of gears, at least 1.
        unit_s: time of one unit in a gear of a length.
        longest: always among the result, at least the longest of the record.

    Returns:
        Lengths, ascending; the last is ``longest``.
    """
    counts = Counter(lengths)
    candidates = _thinned(sorted(lengths), longest)
    below = [0, *(sum(n for length, n in counts.items() if length <= top) for top in candidates)]
    # best[k][i]: least time of all units up to candidate i with k gears, the last of them candidate i
    best = [[unit_s(top) * below[i + 1] for i, top in enumerate(candidates)]]
    cut: list[list[int]] = [[-1] * len(candidates)]
    for _ in range(1, min(count, len(candidates))):
        row: list[float] = []
        cuts: list[int] = []
        for i, top in enumerate(candidates):
            seconds = unit_s(top)
            choices = [(best[-1][j] + seconds * (below[i + 1] - below[j + 1]), j) for j in range(i)]
            choice = min(choices, default=(best[-1][i], cut[-1][i]))
            row.append(choice[0])
            cuts.append(choice[1])
        best.append(row)
        cut.append(cuts)
    last = len(candidates) - 1
    used = min(range(len(best)), key=lambda k: (best[k][last], k))
    chosen: list[int] = []
    at = last
    for k in range(used, -1, -1):
        chosen.append(candidates[at])
        at = cut[k][at]
        if at < 0:
            break
    return chosen[::-1]


def _thinned(ascending: Sequence[int], longest: int) -> list[int]:
    different = sorted(set(ascending))
    if len(different) > MAX_CANDIDATES:
        last = len(ascending) - 1
        different = sorted({ascending[last * k // (MAX_CANDIDATES - 1)] for k in range(MAX_CANDIDATES)})
    if different[-1] != longest:
        different.append(longest)
    return different


@dataclass(frozen=True)
class Packed:
    """What running some units takes.

    Attributes:
        seconds: estimated time.
        work: sum of batch x length over the calls.
    """

    seconds: float
    work: int


def pack_units(lengths: Sequence[int], gears: Sequence[Gear], cost: Cost) -> Packed:
    """Run units in the best calls that ``gears`` allow.

    Units are sorted by length and cut into runs by dynamic programming; a run takes the cheapest gear that holds it.

    Raises:
        ValueError: a unit is longer than every gear.
    """
    return Packer(gears, cost).pack(lengths)


class Packer:
    """Packs units into calls of some gears; what it has worked out for the gears it keeps."""

    def __init__(self, gears: Sequence[Gear], cost: Cost) -> None:
        self._tops = sorted({gear.length for gear in gears})
        priced = [(cost.seconds(g.batch, g.length), g.batch * g.length, g) for g in sorted(gears)]
        batches = sorted({gear.batch for gear in gears})
        never = (float("inf"), 0)
        self._calls: list[list[tuple[int, float, int]]] = []
        """By index of length: (rows, seconds, work) of the cheapest call for each batch size."""
        for top in self._tops:
            fitting = [entry for entry in priced if entry[2].length >= top]
            by_rows = {rows: min((e[:2] for e in fitting if e[2].batch >= rows), default=never) for rows in batches}
            self._calls.append([(rows, *call) for rows, call in by_rows.items() if call[0] < float("inf")])

    def pack(self, lengths: Sequence[int]) -> Packed:
        """See :func:`pack_units`."""
        if lengths and max(lengths) > self._tops[-1]:
            raise ValueError(f"a unit of {max(lengths)} is longer than the longest gear, {self._tops[-1]}")
        best: list[tuple[float, int]] = [(0.0, 0)]
        for end, length in enumerate(sorted(lengths), start=1):
            choices = []
            for rows, seconds, work in self._calls[bisect_left(self._tops, length)]:
                # a call with rows to spare takes all that is left
                before = best[max(0, end - rows)]
                choices.append((before[0] + seconds, before[1] + work))
            best.append(min(choices))
        return Packed(*best[-1])


def pools_of(lengths: Sequence[int]) -> list[list[int]]:
    """Seeded pools of 1 to 32 units, as many units for each size: a server is lonely at times and crowded at others."""
    generator = random.Random(_SEED)
    return [
        [generator.choice(lengths) for _ in range(size)]
        for size in _POOL_SIZES
        for _ in range(_UNITS_PER_POOL_SIZE // size)
    ]


def _price(gears: Sequence[Gear], pools: Sequence[Sequence[int]], cost: Cost) -> float:
    """Time of all pools, dearer where crowded ones are padded beyond ``MAX_PADDING``."""
    packer = Packer(gears, cost)
    seconds = padded = real = 0.0
    for pool in pools:
        packed = packer.pack(pool)
        seconds += packed.seconds
        if len(pool) >= CROWD:
            padded += packed.work
            real += sum(pool)
    return seconds * (1 + PADDING_PRICE * max(0.0, padded / real - MAX_PADDING if real else 0.0))


def propose_gears(
    lengths: Sequence[int],
    cost: Cost,
    max_gears: int = MAX_GEARS,
    batches: Sequence[int] = DEVICE_BATCHES,
    *,
    limit: int | None = None,
    longest: int | None = None,
    align: int = ALIGN,
) -> list[Gear]:
    """Gears of least expected time for a record of lengths.

    Args:
        lengths: of the units that were or will be run (ids or frames), at least one.
        cost: estimated time of a call.
        max_gears: number of gears at most, at least 1.
        batches: batch sizes that may be used; 1 is always among them.
        limit: largest batch x length, from the device's memory; a unit alone is never refused by it.
        longest: longest unit that must be possible, if longer than the record; only alone (batch 1).
        align: lengths are multiples of this.

    Returns:
        Gears in ascending order, 1 to ``max_gears``; some gear of batch 1 holds the longest unit.

    Raises:
        ValueError: an argument is out of its range.
    """
    return proposals(lengths, cost, max_gears, batches, limit=limit, longest=longest, align=align, least=max_gears)[0]


def proposals(
    lengths: Sequence[int],
    cost: Cost,
    max_gears: int = MAX_GEARS,
    batches: Sequence[int] = DEVICE_BATCHES,
    *,
    limit: int | None = None,
    longest: int | None = None,
    align: int = ALIGN,
    least: int = 1,
) -> list[list[Gear]]:
    """What :func:`propose_gears` gives, and smaller plans that came of it, down to ``least`` gears."""
    record = aligned_record(lengths, align)
    longest = aligned(max(longest or 1, record[-1]), align)
    ladder = _ladder(record[-1], longest)

    def lengths_for(count: int, unit_s: Callable[[int], float]) -> list[int]:
        beyond = ladder[max(0, len(ladder) + 1 - count) :] if count > 1 else []
        return [*best_lengths(record, count - len(beyond), unit_s, record[-1] if beyond else longest), *beyond]

    return shrink(lengths_for, lambda tops: record, record[-1], cost, max_gears, batches, limit, ladder, least)


def _ladder(recorded: int, longest: int) -> list[int]:
    """Lengths beyond the record, each twice the one before: of units there it is only known that they may come.

    None if the longest is near the record's end, and takes its place.
    """
    if longest <= _LADDER_GAP * recorded:
        return []
    steps = []
    top = 2 * recorded
    while top * _LADDER_GAP <= longest:
        steps.append(top)
        top *= 2
    return [*steps, longest]


def shrink(
    lengths_for: Callable[[int, Callable[[int], float]], list[int]],
    units_for: Callable[[Sequence[int]], Sequence[int]],
    recorded: int,
    cost: Cost,
    max_gears: int,
    batches: Sequence[int],
    limit: int | None,
    keep: Sequence[int] = (),
    least: int = 1,
) -> list[list[Gear]]:
    """Plans of falling size, each of which gives up one gear of the one before: that which is missed least.

    See the module. Not exact: a gear that was given up early is not tried again later.

    Args:
        lengths_for: gear lengths, ascending, for a number of lengths and a time per unit by length.
        units_for: lengths of the units of the record, given the gear lengths.
        recorded: longest gear that is worth more than one row.
        cost: estimated time of a call.
        max_gears: number of gears at most.
        batches: batch sizes that may be used.
        limit: largest batch x length.
        keep: lengths that stay with batch 1, besides the longest, if they are among them; as far as ``max_gears``
            allows.
        least: number of gears to stop at.

    Returns:
        Plans of at most ``max_gears`` down to ``least`` gears, or down to what must stay.
    """
    if max_gears < 1 or any(batch < 1 for batch in batches):
        raise ValueError(f"cannot propose {max_gears} gears of the batch sizes {list(batches)}")
    sizes = sorted({1, *batches})

    def allowed(length: int) -> list[int]:
        """Larger batches where the record reaches and memory allows."""
        return [b for b in sizes if b == 1 or (length <= recorded and (limit is None or b * length <= limit))]

    def unit_s(length: int) -> float:
        return sum(cost.seconds(b, length) / b for b in allowed(length)) / len(allowed(length))

    tops = lengths_for(max(1, min(max_gears, _START * max_gears // len(sizes))), unit_s)
    gears = [Gear(batch, top) for top in tops for batch in allowed(top)]
    kept = {Gear(1, top) for top in [tops[-1], *(top for top in keep if top in tops[:-1])][:max_gears]}
    plans = [] if len(gears) > max_gears else [sorted(gears)]
    while len(gears) > max(least, len(kept)):
        # windows are cut to the lengths that exist, so the pools follow the gears
        pools = pools_of(units_for(sorted({gear.length for gear in gears})))
        rest = {gear: [other for other in gears if other != gear] for gear in gears if gear not in kept}
        gears = rest[min(rest, key=lambda gear: (_price(rest[gear], pools, cost), gear))]
        if len(gears) <= max_gears:
            plans.append(sorted(gears))
    return plans


def aligned_record(lengths: Sequence[int], align: int) -> list[int]:
    """The lengths of a record as multiples of ``align``, ascending.

    Raises:
        ValueError: there are none, or one is not positive.
    """
    if not lengths or min(lengths) < 1 or align < 1:
        raise ValueError("a record of lengths needs at least one, all of them positive")
    return sorted(aligned(length, align) for length in lengths)
