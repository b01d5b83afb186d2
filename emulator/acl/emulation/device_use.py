"""How much memory is taken of each device, by this process and by the others on the machine.

Processes know of each other through a file (setting ``memory_file``). It holds one line of JSON, an object of bytes by
device for each process; an entry whose process is gone does not count, as a driver takes back what a process leaves.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from voxrepo_contract.errors import ConfigError

_READ_BYTES = 1 << 20


class DeviceUse:
    """Bytes taken.

    Args:
        file: what the processes share; ``None`` if this process has the devices to itself.
    """

    def __init__(self, file: str | None) -> None:
        self._file = None if file is None else Path(file)
        self._own: Counter[int] = Counter()
        self._others: Counter[int] = Counter()

    def total(self, device: int) -> int:
        """Bytes taken of a device by all processes."""
        with self._exchange():
            return self._own[device] + self._others[device]

    def take(self, device: int, count: int, capacity: int) -> bool:
        """Take ``count`` bytes; whether there were so many left."""
        with self._exchange():
            fits = self._own[device] + self._others[device] + count <= capacity
            if fits:
                self._own[device] += count
            return fits

    def give_back(self, device: int, count: int | None = None) -> None:
        """Give ``count`` bytes back, or all that this process has taken."""
        with self._exchange():
            self._own[device] = 0 if count is None else max(0, self._own[device] - count)

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        """Read what the others have taken, and tell them afterwards what this process has."""
        if self._file is None:
            yield
            return
        try:
            fd = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"memory_file: cannot be opened: {error.strerror}", file=self._file) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            me = _name_of(os.getpid())
            try:
                entries = _others_of(os.pread(fd, _READ_BYTES, 0), me)
            except (ValueError, AttributeError, TypeError) as error:
                raise ConfigError(f"memory_file: this is no such file ({error})", file=self._file) from error
            self._others = sum((Counter(entry) for entry in entries.values()), Counter())
            before = dict(self._own)
            yield
            if self._own != before:
                told = {name: {str(key): value for key, value in entry.items()} for name, entry in entries.items()}
                told[me] = {str(key): value for key, value in self._own.items()}
                text = json.dumps(told).encode() + b"\n"
                # the line first: whoever is killed in between leaves old bytes behind its end, which nobody reads
                os.pwrite(fd, text, 0)
                os.ftruncate(fd, len(text))
        finally:
            os.close(fd)


def _others_of(content: bytes, me: str) -> dict[str, dict[int, int]]:
    """Entries of other processes that live."""
    line = content.partition(b"\n")[0]
    entries: Mapping[str, Mapping[str, int]] = json.loads(line) if line else {}
    return {
        name: {int(device): count for device, count in entry.items()}
        for name, entry in entries.items()
        if name != me and _name_of(int(name.partition(":")[0])) == name
    }


def _name_of(pid: int) -> str:
    """A process by number and time of its start, since numbers come back; "" if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    state, started = fields[0], fields[19]
    return "" if state in "ZX" else f"{pid}:{started}"
