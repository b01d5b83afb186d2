"""Callers of gates."""

from __future__ import annotations

from typing import Any

from voxrepo.edge.gates import NOW, CallGate
from voxrepo.edge.lines import Need, Place


async def taken(gate: CallGate, need: Need = NOW, **options: Any) -> Place:
    place = await gate.enter(None, need, **options)
    assert place is not None
    return place


def heard(needed_by_s: float | None) -> Need:
    """A piece that somebody listens to; the first one without a moment."""
    return Need(needed_by_s, begins=needed_by_s is None, is_heard=True)


def whole(needed_by_s: float | None) -> Need:
    """A part of an answer that is waited for as a whole; the first one without a moment."""
    return Need(needed_by_s, begins=needed_by_s is None)
