"""Faults made to order and a look into the ledger, for tests in the process of the program (``acl.control``). The
real module has none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from acl.emulation import devices
from acl.emulation.faults import parse
from acl.emulation.settings import Settings
from acl.emulation.state import ledger


def emulator_control(fault: Mapping[str, Any]) -> None:
    """Arm a fault in this process, described as in the files of ``fault_dir``, see ``emulation/faults.py``.

    Raises:
        ValueError: it describes no fault.
    """
    ledger.faults.add(parse(dict(fault)))


def fail_next(function: str, code: int, *, count: int = 1, text: str = "", skip: int = 0) -> None:
    """Let the next calls of a function fail, e.g. ``rt.malloc``, or runs on the device themselves (``device.task``)."""
    emulator_control({"function": function, "code": code, "count": count, "text": text, "skip": skip})


def set_capacity(size_bytes: int, device: int = 0) -> None:
    """The device has that much memory from now on."""
    devices.devices[device].capacity_bytes = size_bytes


def violations() -> list[dict[str, Any]]:
    """The first 1,000 misuses so far, each with call, site and sentence."""
    return list(ledger.report.violations)


def violation_count() -> int:
    """Number of misuses so far."""
    return ledger.report.violation_count


def leaks() -> list[dict[str, Any]]:
    """What would be reported as never released if the process ended now."""
    return ledger.leaks()


def call_counts() -> dict[str, int]:
    """Calls so far, by function."""
    return dict(ledger.report.calls)


def call_seconds() -> dict[str, float]:
    """Seconds spent in calls so far, waiting included, by function: what a benchmark of the program must subtract."""
    return dict(ledger.report.seconds)


def settings() -> Settings:
    """The settings of this process."""
    return dataclasses.replace(ledger.settings)
