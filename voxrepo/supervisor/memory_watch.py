"""How much memory the engine and its stubs hold, and when to start them afresh because of it."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import psutil

INTERVAL_S = 5.0
LEAST_LIFE_S = 600.0
"""Between two fresh starts: an engine that grows faster than this is better looked at than started over and over."""
DEFAULT_SHARE = 0.8
"""Of the memory that this machine or container has."""
MARGIN_AT_START = 0.9
"""An engine that holds more than this part of the limit when all is loaded needs a higher limit, not fresh starts."""

_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_bytes() -> int:
    """Memory of this machine, or of this container if that is less."""
    total = int(psutil.virtual_memory().total)
    for file in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            total = min(total, int(Path(file).read_text(encoding="ascii")))  # "max" is no number
    return total


def default_limit_bytes() -> int:
    """Limit where none is given."""
    return int(available_bytes() * DEFAULT_SHARE)


def held_bytes(pid: int) -> int:
    """Memory of a process and its descendants; pages that several share count once (PSS)."""
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for process in processes:
        with suppress(OSError, psutil.Error):
            found = _PSS.search(Path(f"/proc/{process.pid}/smaps_rollup").read_bytes())
            total += int(found[1]) * 1024 if found is not None else int(process.memory_info().rss)
    return total


class MemoryPolicy:
    """Pure: whether an engine is to be started afresh.

    Args:
        limit_bytes: above which; 0 for never.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._started_s = float("-inf")
        self._at_start_bytes: int | None = None
        self._recycled_s = float("-inf")

    def engine_started(self, now_s: float) -> None:
        """An engine has loaded everything."""
        self._started_s = now_s
        self._at_start_bytes = None

    @property
    def limit_is_too_low(self) -> bool:
        """Whether the engine was about to exceed the limit as soon as all was loaded."""
        return (
            self.limit_bytes > 0
            and self._at_start_bytes is not None
            and self._at_start_bytes > self.limit_bytes * MARGIN_AT_START
        )

    def exceeds(self, bytes_now: int, now_s: float) -> bool:
        """Take in a measurement.

        Returns:
            whether to start the engine afresh now.
        """
        if self._at_start_bytes is None:
            self._at_start_bytes = bytes_now
        if self.limit_bytes <= 0 or bytes_now <= self.limit_bytes or self.limit_is_too_low:
            return False
        if now_s - self._recycled_s < LEAST_LIFE_S:
            return False
        self._recycled_s = now_s
        return True
