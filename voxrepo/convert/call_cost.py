"""What a call of a graph costs, as far as it must be known before there is a graph to measure. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Cost(Protocol):
    """Estimated time of one call."""

    def seconds(self, batch: int, length: int) -> float:
        """Time of a call of ``batch`` rows of ``length`` (ids or frames) each; positive, never less for more work."""
        ...


@dataclass(frozen=True)
class LinearCost:
    """A fixed time per call and a time per row and unit of length: ``fixed_s + per_unit_s * batch * length``."""

    fixed_s: float
    per_unit_s: float

    def __post_init__(self) -> None:
        if self.fixed_s < 0 or self.per_unit_s <= 0:
            raise ValueError("a call's fixed time must be at least 0 and its time per unit positive")

    def seconds(self, batch: int, length: int) -> float:
        """See :class:`Cost`."""
        return self.fixed_s + self.per_unit_s * batch * length


@dataclass(frozen=True)
class TableCost:
    """Measured times by (batch, length); between and beyond them the time per row-length is taken from the nearest.

    Nearest is the measured call with the same or the next larger amount of work, else the largest one.
    """

    seconds_by_call: Mapping[tuple[int, int], float]

    def __post_init__(self) -> None:
        if not self.seconds_by_call or min(self.seconds_by_call.values()) <= 0:
            raise ValueError("a table of costs needs at least one call, and positive times")

    def seconds(self, batch: int, length: int) -> float:
        """See :class:`Cost`."""
        known = self.seconds_by_call.get((batch, length))
        if known is not None:
            return known
        work = batch * length
        larger = [(b * n, s) for (b, n), s in self.seconds_by_call.items() if b * n >= work]
        near_work, near_s = min(larger) if larger else max((b * n, s) for (b, n), s in self.seconds_by_call.items())
        return near_s * work / near_work


NPU_VOCODER = LinearCost(fixed_s=1.3e-3, per_unit_s=5.5e-6)
"""Fit to HiFi-GAN v1 on a 310P3 as published with Ascend's ModelZoo (calls x batch per second; 250 frames: 378 at
batch 1 and 683 at batch 8; 500 frames: 259 and 327; 1000 frames: 129 and 152). A call's fixed time is worth about 230
frames. Used for every graph until it is measured: gears follow from the ratio of the two numbers only."""
