"""Options of the runtime, as text from a model's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from om_backend.device.faults import Action, DeviceFault

MAX_OUTPUT_BYTES = 64 << 20
"""Bound of an output whose size the model does not tell: 16 million float32 samples, over ten minutes of audio."""


@dataclass(frozen=True)
class Options:
    """How graphs are run.

    Attributes:
        watchdog_ms: longest time that a run may take on the device (option ``watchdog_ms``).
        max_output_bytes: bound of an output whose size is not known before a run (option ``max_output_bytes``:
            a number for all of them).
        max_output_bytes_by_name: the same for single outputs (option ``max_output_bytes`` as ``name=bytes,...``).
        memory_reserve_bytes: device memory that must stay free after a load (option ``memory_reserve_bytes``).
    """

    watchdog_ms: int = 30_000
    max_output_bytes: int = MAX_OUTPUT_BYTES
    max_output_bytes_by_name: Mapping[str, int] = field(default_factory=dict)
    memory_reserve_bytes: int = 0

    def output_bound_bytes(self, name: str) -> int:
        """Largest size of the output ``name`` where the model does not tell it."""
        return self.max_output_bytes_by_name.get(name, self.max_output_bytes)


def read_options(options: Mapping[str, str]) -> Options:
    """Read the options; those of others are left alone.

    Raises:
        DeviceFault: a value is not a number in its range.
    """
    bound, by_name = MAX_OUTPUT_BYTES, {}
    text = options.get("max_output_bytes", "")
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.rpartition("=")
        number = _number("max_output_bytes", value, low=1)
        if equals:
            by_name[name.strip()] = number
        else:
            bound = number
    return Options(
        watchdog_ms=_number("watchdog_ms", options.get("watchdog_ms", "30000"), low=1, high=(1 << 31) - 1),
        max_output_bytes=bound,
        max_output_bytes_by_name=by_name,
        memory_reserve_bytes=_number("memory_reserve_bytes", options.get("memory_reserve_bytes", "0")),
    )


def _number(name: str, text: str, low: int = 0, high: int = 1 << 48) -> int:
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise DeviceFault(
            "options",
            0,
            Action.REFUSE,
            f"the option {name} is {text!r}; it must be a whole number from {low} to {high}",
        )
    return number
