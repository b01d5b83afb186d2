"""Finding the fewest groups of nodes that must stay in full precision. Pure but for the judges it is given.

Every group's own damage is measured once, by lowering it alone. Keeping more is taken to be never worse. Then the
groups, the most harmful first, have a shortest beginning that passes, which halving finds; from that, the least harmful
are released again one by one as long as the judge agrees. A quick judge answers all this, about log2(n) + n/4 times for
n groups, and a thorough one says whether to begin, and whether the result holds; where it does not, the next most
harmful groups are kept too, until it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Ask = Callable[[frozenset[str]], "Opinion"]
"""Says of a set of kept groups whether the rest may be lowered."""


@dataclass(frozen=True)
class Opinion:
    """What a judge says of one choice.

    Attributes:
        accepted: whether the gates pass.
        reasons: sentences; of the gates that do not pass, if any.
    """

    accepted: bool
    reasons: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Why not."""
        return "; ".join(self.reasons) or "the gates do not pass"


@dataclass(frozen=True)
class Damage:
    """What one group does when it alone is lowered.

    Attributes:
        amount: the more, the worse; of one unit for all groups of a search.
        words: a sentence with the number, which becomes the reason where the group is kept.
    """

    amount: float
    words: str


@dataclass(frozen=True)
class Trial:
    """One choice that was judged."""

    kept: tuple[str, ...]
    opinion: Opinion
    thorough: bool


@dataclass(frozen=True)
class Found:
    """What the search came to.

    Attributes:
        kept: groups that stay in full precision, in the graph's order, each with the reason: its own damage, and what
            the judge said where it was lowered beside all that are.
        lowered: groups that do not.
        accepted: whether this choice passes; false if nothing can be lowered.
        trials: everything that was judged, in order.
    """

    kept: dict[str, str]
    lowered: tuple[str, ...]
    accepted: bool
    trials: tuple[Trial, ...]


@dataclass
class _Court:
    quick: Ask
    thorough: Ask
    groups: Sequence[str]
    seen: dict[tuple[bool, frozenset[str]], Opinion] = field(default_factory=dict)

    def ask(self, kept: Sequence[str], *, thorough: bool = False) -> Opinion:
        key = (thorough, frozenset(kept))
        if len(key[1]) == len(self.groups):
            return Opinion(True)  # the source itself
        if key not in self.seen:
            self.seen[key] = (self.thorough if thorough else self.quick)(key[1])
        return self.seen[key]

    def trials(self) -> tuple[Trial, ...]:
        return tuple(Trial(self.in_order(kept), opinion, hard) for (hard, kept), opinion in self.seen.items())

    def in_order(self, kept: frozenset[str]) -> tuple[str, ...]:
        return tuple(group for group in self.groups if group in kept)


def smallest_kept(
    groups: Sequence[str], quick: Ask, thorough: Ask, damages: Callable[[], Mapping[str, Damage]]
) -> Found:
    """Find the groups to keep.

    Args:
        groups: in the graph's order, each once.
        quick: judge of the search. Neither judge is asked about all groups: that is the source.
        thorough: judge of the result.
        damages: of each group alone; asked only where something must be kept.
    """
    court = _Court(quick, thorough, groups)
    first = court.ask((), thorough=True)
    if first.accepted:
        return Found({}, tuple(groups), True, court.trials())
    harm = damages()
    place = {group: number for number, group in enumerate(groups)}
    # of equal harm the later first: its errors are not averaged any more
    order = sorted(groups, key=lambda group: (-harm[group].amount, -place[group]))
    kept = order[: _first_true(lambda count: court.ask(order[:count]).accepted, 0, len(order))]
    if len(kept) == len(order):  # the quick judge may be the stricter one on its fewer texts
        kept = order[: _first_true(lambda count: court.ask(order[:count], thorough=True).accepted, 0, len(order))]
    said: dict[str, str] = {}
    for group in reversed(kept[-math.ceil(max(8, len(groups)) / 4) :]):
        opinion = court.ask([name for name in kept if name != group])
        if opinion.accepted:
            kept.remove(group)
        else:
            said[group] = opinion.sentence
    more = [group for group in order if group not in kept]
    if not court.ask(kept, thorough=True).accepted:
        step = 1  # most often few are missing, so the way there begins with small steps
        while step < len(more) and not court.ask([*kept, *more[:step]], thorough=True).accepted:
            step *= 2
        last = min(step, len(more))
        count = _first_true(lambda size: court.ask([*kept, *more[:size]], thorough=True).accepted, step // 2, last)
        opinion = court.ask([*kept, *more[: count - 1]], thorough=True)
        said[more[count - 1]] = opinion.sentence
        kept += more[:count]
    if len(kept) == len(groups):
        return Found(dict.fromkeys(groups, first.sentence), (), False, court.trials())
    ranks = {group: number for number, group in enumerate(order, start=1)}
    return Found(
        {
            group: _reason(harm[group], ranks[group], len(order), said.get(group, ""))
            for group in groups
            if group in kept
        },
        tuple(group for group in groups if group not in kept),
        True,
        court.trials(),
    )


def _first_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Smallest number above ``low`` for which it holds, taken to hold from there on, and at ``high`` in any case."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _reason(damage: Damage, rank: int, count: int, said: str) -> str:
    text = f"{damage.words}, number {rank} of {count} by harm"
    return f"{text}; with it lowered beside the rest, {said}" if said else text
