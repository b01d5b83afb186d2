"""Pure: what calls of a model cost, learned from those that were made.

A call costs ``a + b * units`` seconds of its gate's time (see :meth:`voxrepo.edge.gates.CallGate.used_s`), where units
are characters, ids or frames. Both numbers are fitted by least squares with weights that fade, so that they follow a
change of the machine's load within some tens of calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voxrepo_contract.tensors import PHONEME_IDS, TEXT, features

FEATURES = features(-1)

FADE = 0.97
"""What a call's weight is multiplied by with every later one of equal weight: the last 33 count."""

MIN_CALLS = 8
"""Calls before which nothing is predicted: the first ones after a load are slow and say little."""

MAX_OUTLIER = 4.0
"""A call that took this many times what was predicted counts as that many times. One odd call thus hardly changes
anything, and a lasting change is followed within a few calls, since the prediction grows along."""

_SMALLEST_S = 1e-4


_MAX_TEXT_BYTES = 64 * 1024
"""More of a text is not looked at: it may come from anybody."""


def _characters(raw: bytes) -> int:
    # one BYTES element: four bytes of length, then UTF-8
    return len(raw[4 : 4 + _MAX_TEXT_BYTES].decode("utf-8", "replace"))


def units_of(request: Any) -> int:
    """What the cost of a ``ModelInferRequest`` grows with.

    Frames where features go in, ids where ids go in, characters where a text goes in, else 1.
    """
    units = 1
    for index, tensor in enumerate(request.inputs):
        if tensor.name == FEATURES.name and len(tensor.shape) >= 2:
            return max(int(tensor.shape[-2]), 1)
        if tensor.name == PHONEME_IDS.name and tensor.shape:
            return max(int(tensor.shape[-1]), 1)
        if tensor.name == TEXT.name and index < len(request.raw_input_contents):
            units = max(_characters(request.raw_input_contents[index]), 1)
    return units


@dataclass
class CostModel:
    """The cost of one model's calls.

    Attributes:
        calls: calls seen.
    """

    calls: int = 0
    _weight: float = 0.0
    _units: float = 0.0
    _units2: float = 0.0
    _seconds: float = 0.0
    _units_seconds: float = 0.0

    def line(self) -> tuple[float, float]:
        """``a`` in seconds and ``b`` in seconds per unit, neither below 0; zeros before the first call."""
        if self._weight <= 0:
            return 0.0, 0.0
        units, seconds = self._units / self._weight, self._seconds / self._weight
        variance = self._units2 / self._weight - units * units
        # calls of nearly one length say nothing about other lengths; half of the cost is then taken to be fixed
        if variance <= 1e-3 * units * units:
            return seconds / 2, seconds / 2 / units
        slope = (self._units_seconds / self._weight - units * seconds) / variance
        # the line goes through the means; a or b below 0 would be noise
        slope = min(max(slope, 0.0), seconds / units)
        return seconds - slope * units, slope

    def predict(self, units: int) -> float | None:
        """Seconds that a call of so many units will take; None before :data:`MIN_CALLS` calls."""
        if self.calls < MIN_CALLS:
            return None
        a, b = self.line()
        return a + b * units

    def observe(self, units: int, seconds: float, weight: float = 1.0) -> None:
        """Learn from a call.

        Args:
            units: its size, at least 1.
            seconds: what it took.
            weight: of this call; those before fade the more, the more it weighs.
        """
        known_s = self.predict(units)
        if known_s is not None:
            seconds = min(seconds, MAX_OUTLIER * max(known_s, _SMALLEST_S))
        self.calls += 1
        fade = FADE**weight
        self._weight = fade * self._weight + weight
        self._units = fade * self._units + weight * units
        self._units2 = fade * self._units2 + weight * units * units
        self._seconds = fade * self._seconds + weight * seconds
        self._units_seconds = fade * self._units_seconds + weight * units * seconds


class Costs:
    """A cost model for each gate."""

    def __init__(self) -> None:
        self._models: dict[str, CostModel] = {}

    def line(self, name: str) -> tuple[float, float]:
        """Seconds of the gate ``name`` per call, and those that each unit adds; 0 while too little is known."""
        model = self._models.get(name)
        return model.line() if model is not None and model.calls >= MIN_CALLS else (0.0, 0.0)

    def predict(self, name: str, units: int) -> float:
        """Seconds of the gate ``name`` that a call takes; 0 while too little is known."""
        a, b = self.line(name)
        return a + b * units

    def observe(self, name: str, units: int, shared_s: float, own_s: float) -> None:
        """Learn from a call; see :meth:`voxrepo.edge.gates.CallGate.used_s` for the two times.

        A call that shared the gate with many weighs more: alone, an engine shows less than it can do with several.
        """
        self._models.setdefault(name, CostModel()).observe(units, own_s, shared_s / own_s if own_s > 0 else 1.0)
