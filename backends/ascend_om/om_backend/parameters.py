"""Parameters of a model's configuration, and which device an instance uses. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from voxrepo_contract.errors import ConfigError

WATCHDOG_MS = 30_000
"""Longest time that a run may take on a device, where the configuration does not say."""

RUNTIME_OPTIONS = ("max_output_bytes", "memory_reserve_bytes")
"""Parameters that are handed to the device runtime as they are; it checks them."""

MAX_DEVICE_ID = 1023


@dataclass(frozen=True)
class ModelParameters:
    """What the configuration says of how a model is run.

    Attributes:
        threads: intra-op threads of graphs on a CPU.
        opening_threads: those of a vocoder for the windows that begin segments.
        unit_batch: units per call; ``None`` measures what is cheapest.
        runtime: ``acl``, ``ais_bench``, ``torch_npu`` or ``onnx``; ``None`` takes the usual one of the file type.
        device_ids: devices that the instances take in turn.
        watchdog_ms: longest time that a run may take on a device.
        options: for the device runtime.
    """

    threads: int = 1
    opening_threads: int = 1
    unit_batch: int | None = None
    runtime: str | None = None
    device_ids: tuple[int, ...] = (0,)
    watchdog_ms: int = WATCHDOG_MS
    options: Mapping[str, str] = field(default_factory=dict)


def read_parameters(config: Mapping[str, Any]) -> ModelParameters:
    """Read a model configuration as Triton hands it to a backend.

    Raises:
        ConfigError: a parameter has no sensible value; the text names it.
    """
    texts = {name: str(value["string_value"]) for name, value in config.get("parameters", {}).items()}
    batch = texts.get("unit_batch", "auto")
    watchdog_ms = _number("watchdog_ms", texts.get("watchdog_ms", str(WATCHDOG_MS)), 1, 24 * 3600 * 1000)
    options = {name: texts[name] for name in RUNTIME_OPTIONS if name in texts}
    threads = _number("threads", texts.get("threads", "1"), 1, 1024)
    return ModelParameters(
        threads=threads,
        opening_threads=_number("opening_threads", texts.get("opening_threads", str(threads)), 1, 1024),
        unit_batch=None if batch == "auto" else _number("unit_batch", batch, 1, 4096),
        runtime=texts.get("runtime") or None,
        device_ids=_device_ids(texts.get("device_ids", "0")),
        watchdog_ms=watchdog_ms,
        options={**options, "watchdog_ms": str(watchdog_ms)},
    )


def device_of(parameters: ModelParameters, instance_name: str, groups: Sequence[Mapping[str, Any]]) -> int:
    """The device of one instance: instances take ``device_ids`` in turn, by their number."""
    return parameters.device_ids[instance_number(instance_name, groups) % len(parameters.device_ids)]


def instance_number(instance_name: str, groups: Sequence[Mapping[str, Any]]) -> int:
    """Number of an instance, counted over all instance groups of its model.

    Triton names an instance after its group, with a running number where the group has more than one.

    Args:
        instance_name: as Triton hands it to a backend.
        groups: ``instance_group`` of the completed configuration.
    """
    first = 0
    for group in groups:
        count = max(int(group.get("count", 1)), 1)
        name = str(group.get("name", ""))
        for index in range(count):
            if instance_name == (f"{name}_{index}" if count > 1 else name):
                return first + index
        first += count
    digits = re.search(r"_(\d+)\Z", instance_name)
    return int(digits.group(1)) if digits else 0


def _device_ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    if not parts:
        raise ConfigError(f'the parameter device_ids is {text!r}; write device numbers, e.g. "0" or "0;1"')
    return tuple(_number("device_ids", part, 0, MAX_DEVICE_ID) for part in parts)


def _number(name: str, text: str, low: int, high: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = low - 1
    if not low <= number <= high:
        raise ConfigError(f"the parameter {name} is {text!r}; it must be a whole number from {low} to {high}")
    return number
