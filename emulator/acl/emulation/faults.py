"""Faults made to order: by ``acl.emulator_control`` in this process, or by files in a watched directory.

A file ``<any name>.json`` in ``fault_dir`` is claimed by the first process in which it applies, by renaming it to
``<name>.json.claimed.<pid>``; with ``"sticky": true`` it stays and applies to every process. Write it under another
name and rename it, so that nobody reads half of it. The keys:

``function``, ``code``, ``text``, ``count`` (default 1, -1 for ever), ``skip`` (default 0)
    the call (``rt.malloc``) returns ``code`` instead of doing anything; ``device.task`` is the next piece of work on
    the device, which fails when it is waited for.
``latency_ms``, ``count``, ``skip``
    the next pieces of work take that much longer.
``device_lost: true``
    the device does not answer any more.
``ecc: true``
    the next synchronisation reports a memory error of the device.
``memory_bytes``
    the device has that much memory from now on.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from acl.emulation.report import Report

DEVICE_TASK: Final = "device.task"
DEVICE_LATENCY: Final = "device.latency"

EVENTS: Final = ("device_lost", "ecc", "memory_bytes")

_KEYS: Final = {"function", "code", "text", "count", "skip", "latency_ms", "sticky", *EVENTS}
_HALF_WRITTEN_S: Final = 1.0
_MTIME_TICK_S: Final = 0.05
"""Files made within the same clock tick as the last look leave the directory's time unchanged: look again."""


@dataclass
class Fault:
    """A fault that waits for its call.

    Attributes:
        function: call it applies to, or ``device.task``, or ``device.latency``, or one of the events.
        code: return code.
        text: for ``get_recent_err_msg``.
        count: calls still to fail, -1 for ever.
        skip: calls still to pass first.
        amount: milliseconds of latency, or bytes of memory.
        file: where it came from.
    """

    function: str
    code: int = 0
    text: str = ""
    count: int = 1
    skip: int = 0
    amount: float = 0.0
    file: Path | None = None
    sticky: bool = False


def parse(value: Any) -> Fault:
    """The fault that a JSON object describes.

    Raises:
        ValueError: it describes none, or more than one.
    """
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS))}")
    kinds = [key for key in ("function", "latency_ms", "device_lost", "ecc", "memory_bytes") if value.get(key)]
    if len(kinds) != 1:
        raise ValueError("just one of function, latency_ms, device_lost, ecc, memory_bytes is expected")
    kind = kinds[0]
    numbers = {key: value[key] for key in ("code", "count", "skip", "latency_ms", "memory_bytes") if key in value}
    for key, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise ValueError(f"{key}: a number is expected, got {number!r}")
    if kind == "function" and not numbers.get("code"):
        raise ValueError("function: a code other than 0 is needed with it")
    return Fault(
        function={"function": str(value.get("function")), "latency_ms": DEVICE_LATENCY}.get(kind, kind),
        code=int(numbers.get("code", 0)),
        text=str(value.get("text", "")),
        count=int(numbers.get("count", 1)),
        skip=int(numbers.get("skip", 0)),
        amount=float(numbers.get(kind, 0)),
        sticky=bool(value.get("sticky", False)),
    )


class Faults:
    """The faults of this process and those offered in the directory."""

    def __init__(self, directory: str | None, report: Report) -> None:
        self._directory = directory
        self._report = report
        self._armed: list[Fault] = []
        self._offered: list[Fault] = []
        self._spent: set[Path | None] = set()
        self._seen_mtime_ns = -1

    def add(self, fault: Fault) -> None:
        """Arm a fault in this process."""
        self._armed.append(fault)

    def look(self) -> bool:
        """Look into the directory, if it changed; whether any fault waits."""
        if self._directory is not None:
            self._look(self._directory)
        return bool(self._armed or self._offered)

    def take(self, function: str) -> Fault | None:
        """The fault that this call must suffer, if any. Counts it."""
        for offered in [fault for fault in self._offered if fault.function == function]:
            self._offered.remove(offered)
            if self._claim(offered):
                self._armed.append(offered)
        for fault in self._armed:
            if fault.function != function:
                continue
            if fault.sticky and fault.file is not None and not fault.file.exists():
                self._armed.remove(fault)
                return None
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if fault.count > 0:
                fault.count -= 1
                if fault.count == 0:
                    self._armed.remove(fault)
                    self._spent.add(fault.file)
            self._report.note("injected fault", function=function, code=fault.code, amount=fault.amount)
            self._report.counters["injected_faults"] += 1
            return fault
        return None

    def _look(self, directory: str) -> None:
        try:
            mtime_ns = os.stat(directory).st_mtime_ns  # noqa: PTH116  a Path costs more than the call
        except OSError:
            return
        if mtime_ns != self._seen_mtime_ns or time.time() - mtime_ns / 1e9 < _MTIME_TICK_S:
            self._seen_mtime_ns = mtime_ns
            self._read_all(Path(directory))

    def _read_all(self, directory: Path) -> None:
        known = {fault.file for fault in (*self._offered, *self._armed)} | self._spent
        self._offered = [fault for fault in self._offered if fault.file is not None and fault.file.exists()]
        for file in sorted(directory.glob("*.json")):
            if file in known:
                continue
            try:
                fault = parse(json.loads(file.read_text(encoding="utf-8")))
            except FileNotFoundError:
                continue
            except ValueError as error:
                self._refuse(file, error)
                continue
            fault.file = file
            self._offered.append(fault)

    def _refuse(self, file: Path, error: ValueError) -> None:
        try:
            if time.time() - file.stat().st_mtime < _HALF_WRITTEN_S:
                self._seen_mtime_ns = -1
                return
            file.rename(file.with_name(f"{file.name}.bad"))
        except OSError:
            return
        self._report.violation(f"{file.name} describes no fault: {error}")

    def _claim(self, fault: Fault) -> bool:
        assert fault.file is not None
        if fault.sticky:
            return fault.file.exists()
        try:
            fault.file.rename(fault.file.with_name(f"{fault.file.name}.claimed.{os.getpid()}"))
        except OSError:
            return False
        return True
