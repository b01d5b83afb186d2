"""Which pairs of audio are kept for the report: the first ones of each arm, and those that differ most. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

FIRST = 3
"""Pairs of each arm from the beginning: how it sounds as a rule."""
WORST = 5
"""Pairs of each arm that differ most from the stable arm's: what could be wrong with it."""
MAX_BYTES = 50_000_000
"""Of one rollout."""

_SCALES = {"duration_ratio": math.log(1.15), "level_difference_db": 3.0, "mel_cepstral_distance_db": 8.0}
"""Differences that count alike: the limits of the default gates."""


@dataclass(frozen=True)
class Kept:
    """A pair whose audio is there.

    Attributes:
        arm: that is judged.
        id: of the pair.
        at: seconds since the epoch.
        badness: see :func:`badness`.
        size_bytes: of its files.
    """

    arm: str
    id: str
    at: float
    badness: float
    size_bytes: int


def badness(measures: Mapping[str, float]) -> float:
    """How far a pair's audio differ, 1 at the limit of a default gate; infinite if one of both is missing."""
    if not measures:
        return math.inf
    found = [0.0]
    for name, scale in _SCALES.items():
        if name in measures:
            value = measures[name]
            if name == "duration_ratio":
                value = math.log(value) if value > 0 else math.inf
            found.append(abs(value) / scale)
    rates = [measures[name] for name in ("word_error_rate", "character_error_rate") if name in measures]
    return max(found + rates)


def to_keep(pairs: Collection[Kept], max_bytes: int = MAX_BYTES) -> list[Kept]:
    """Those of ``pairs`` that stay; what is less worth goes first where there are too many bytes."""
    first, worst = [], []
    for arm in {pair.arm for pair in pairs}:
        own = sorted((pair for pair in pairs if pair.arm == arm), key=lambda pair: (pair.at, pair.id))
        first += own[:FIRST]
        worst += sorted(own[FIRST:], key=lambda pair: -pair.badness)[:WORST]
    first.sort(key=lambda pair: (pair.at, pair.id))
    worst.sort(key=lambda pair: -pair.badness)
    # an arm's very first pair and its worst one stay longest
    ranked = [pair for both in _alternating(first, worst) for pair in both]
    kept, total = [], 0
    for pair in ranked:
        if total + pair.size_bytes <= max_bytes:
            kept.append(pair)
            total += pair.size_bytes
    return kept


def _alternating(one: list[Kept], other: list[Kept]) -> list[list[Kept]]:
    longest = max(len(one), len(other))
    return [one[place : place + 1] + other[place : place + 1] for place in range(longest)]
