"""Violations as they happen and leaks at the end, one JSON-lines file per process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final

from voxrepo_contract.errors import ConfigError

_PACKAGE: Final = str(Path(__file__).parent.parent)
_KEPT: Final = 1000
"""Violations kept in memory; a faulty program can make millions, the file has them all."""


def site() -> str:
    """``file:line function`` of the nearest caller outside the emulator."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return "?"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"


class Report:
    """The report of this process.

    Raises:
        ConfigError: the directory cannot be written.

    Attributes:
        violations: the first ones, each as in the file.
        violation_count: of all.
        calls: number of calls by function.
        seconds: time spent in them, waiting included, for whoever measures the program around them.
        counters: other counts for the last line.
    """

    def __init__(self, directory: str | None, about: dict[str, Any]) -> None:
        self.violations: list[dict[str, Any]] = []
        self.violation_count = 0
        self.calls: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.counters: Counter[str] = Counter()
        self.thread = threading.local()
        self._directory = None if directory is None else Path(directory)
        self._about = about
        self._stream: IO[str] | None = None
        self._pid = 0
        self._lock = threading.Lock()
        self._seen_once: set[str] = set()
        if self._directory is not None:
            try:
                # at once: a report that cannot be written must not pass for one without violations
                self._open()
            except OSError as error:
                raise ConfigError(f"report_dir: cannot be written: {error.strerror}", file=self._directory) from error

    def violation(self, sentence: str, *, once: str = "") -> None:
        """Record a misuse of the interface.

        Args:
            sentence: what was done and what happens on hardware.
            once: where given, only the first violation with this key is recorded.
        """
        if once:
            if once in self._seen_once:
                return
            self._seen_once.add(once)
        entry = {
            "kind": "violation",
            "call": getattr(self.thread, "call", "?"),
            "site": site(),
            "sentence": sentence,
            "thread": threading.current_thread().name,
            "time": time.time(),
        }
        self.violation_count += 1
        if len(self.violations) < _KEPT:
            self.violations.append(entry)
        self.write(entry)
        if self._directory is None:
            print(f"acl emulator: {entry['call']} at {entry['site']}: {sentence}", file=sys.stderr)  # noqa: T201

    def note(self, what: str, **details: Any) -> None:
        """Record something that happened by order: an injected fault, a lost device."""
        self.write({"kind": "note", "what": what, "time": time.time(), **details})

    def write(self, entry: dict[str, Any]) -> None:
        """Append a line and flush it, so that it outlives a killed process."""
        if self._directory is None:
            return
        with self._lock:
            if self._stream is None or self._pid != os.getpid():
                self._open()
            assert self._stream is not None
            self._stream.write(json.dumps(entry, ensure_ascii=True) + "\n")
            self._stream.flush()

    def end(self, leaks: list[dict[str, Any]], left: int) -> None:
        """Write a line per leak and the last line."""
        for leak in leaks:
            self.write({"kind": "leak", **leak})
            if self._directory is None:
                print(f"acl emulator: never released: {leak['what']} made at {leak['site']}", file=sys.stderr)  # noqa: T201
        self.write(
            {
                "kind": "end",
                "violations": self.violation_count,
                "leaks": len(leaks),
                "left_on_a_dead_device": left,
                **self.counters,
                "calls": dict(self.calls),
                "seconds": {name: round(value, 6) for name, value in self.seconds.items()},
                **self._about,
            }
        )

    def _open(self) -> None:
        # a forked child gets a file of its own
        assert self._directory is not None
        self._directory.mkdir(parents=True, exist_ok=True)
        self._pid = os.getpid()
        name = f"emulator-{self._pid}-{time.time_ns()}.jsonl"
        self._stream = (self._directory / name).open("a", encoding="utf-8")
        line = {"kind": "start", "pid": self._pid, "time": time.time(), **self._about}
        self._stream.write(json.dumps(line, ensure_ascii=True) + "\n")
        self._stream.flush()
