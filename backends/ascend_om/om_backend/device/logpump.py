"""What a worker prints, line by line into the stub's log: bounded in length and in number."""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Callable

MAX_LINE_BYTES = 2000
MAX_LINES = 200
WINDOW_S = 10.0
"""At most 200 lines in 10 s; CANN can write thousands in an error storm."""

_TAIL_LINES = 12


class LogPump:
    """Reads a pipe until its end in a thread of its own.

    Args:
        fd: read end of the pipe; closed by the pump.
        write: takes one line.
        at_end: called when the pipe ends, that is when the worker is gone.
    """

    def __init__(self, fd: int, write: Callable[[str], None], at_end: Callable[[], None]) -> None:
        self._fd = fd
        self._write = write
        self._at_end = at_end
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self._thread = threading.Thread(target=self._pump, name="voxrepo-worker-log", daemon=True)
        self._thread.start()

    @property
    def tail(self) -> str:
        """The last lines, joined."""
        return " | ".join(list(self._tail))

    def join(self, timeout_s: float) -> None:
        """Wait until all is written; the pipe must have ended."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _pump(self) -> None:
        pending = b""
        limiter = _Limiter(time.monotonic())
        try:
            while chunk := os.read(self._fd, 1 << 16):
                *lines, pending = (pending + chunk).split(b"\n")
                if len(pending) > MAX_LINE_BYTES:
                    lines.append(pending)
                    pending = b""
                self._take(lines, limiter)
            self._take([pending], limiter)
            self._take_note(limiter.note())
        finally:
            os.close(self._fd)
            self._at_end()

    def _take(self, lines: list[bytes], limiter: _Limiter) -> None:
        for line in lines:
            text = printable(line)
            if not text:
                continue
            self._tail.append(text)
            allowed, note = limiter.allow(time.monotonic())
            self._take_note(note)
            if allowed:
                self._write(text)

    def _take_note(self, note: str) -> None:
        if note:
            self._write(note)


class _Limiter:
    def __init__(self, now: float) -> None:
        self._since = now
        self._lines = 0
        self._dropped = 0

    def allow(self, now: float) -> tuple[bool, str]:
        note = ""
        if now - self._since >= WINDOW_S:
            note = self.note()
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines > MAX_LINES:
            self._dropped += 1
            return False, note
        return True, note

    def note(self) -> str:
        dropped, self._dropped = self._dropped, 0
        return f"({dropped} more lines within {WINDOW_S:g} s are left out)" if dropped else ""


def printable(line: bytes) -> str:
    """A line for a log: at most 2,000 bytes of it, UTF-8 where it is, control characters escaped."""
    text = line[:MAX_LINE_BYTES].decode("utf-8", errors="backslashreplace").strip()
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)
