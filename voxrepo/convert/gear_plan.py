"""Planned gears, and what they are worth beside other ways to run the same record. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voxrepo.convert.gears import Gear

PLANNED, POWERS_OF_TWO, ONE_GEAR, UNPADDED = "planned", "powers of two", "one gear", "no padding, each unit alone"


@dataclass(frozen=True)
class Expected:
    """What running the record is expected to take, over seeded pools of 1 to 32 of its units.

    Attributes:
        unit_s: time per unit.
        padding: units of length computed, padding and overlaps included, per unit of length that was asked for.
        price: time, dearer where crowded pools are padded beyond ``MAX_PADDING``.
    """

    unit_s: float
    padding: float
    price: float


@dataclass(frozen=True)
class Way:
    """One way to run the record, for comparison.

    Attributes:
        name: what it is.
        gears: of it; none where every unit has its own size.
        expected: what it takes.
        memory_bytes: that its gears take on the device.
    """

    name: str
    gears: tuple[Gear, ...]
    expected: Expected
    memory_bytes: int

    def table(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {
            "name": self.name,
            "gears": [[gear.batch, gear.length] for gear in self.gears],
            "expected_ms_per_unit": round(self.expected.unit_s * 1e3, 6),
            "padding": round(self.expected.padding, 4),
            "memory_bytes": self.memory_bytes,
        }


@dataclass(frozen=True)
class GearPlan:
    """A plan and what it is worth.

    Attributes:
        gears: ascending.
        ways: the plan, powers of two at equal count, one gear, and every unit alone at its own length.
    """

    gears: tuple[Gear, ...]
    ways: tuple[Way, ...]

    def way(self, name: str) -> Way:
        """One of ``ways``."""
        return next(way for way in self.ways if way.name == name)

    def saving(self, name: str) -> float:
        """Share of the expected time of another way that the plan saves; below 0 if it takes longer."""
        return 1 - self.way(PLANNED).expected.unit_s / self.way(name).expected.unit_s

    def table(self) -> dict[str, Any]:
        """Plain values for ``--json``."""
        return {"gears": [[g.batch, g.length] for g in self.gears], "ways": [way.table() for way in self.ways]}
