"""Loads on one device take turns: free memory that was looked at must stay free until the buffers are made."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from om_backend.device.faults import Action, DeviceFault

_POLL_S = 0.02


@contextmanager
def load_turn(file: Path | None, longest_wait_s: float) -> Iterator[None]:
    """Hold the lock of a device while something is loaded onto it. The kernel frees it if this process is killed.

    Args:
        file: the lock, one for each device, shared by all workers of a server; ``None`` where nobody else loads.
        longest_wait_s: after it, whoever holds the lock is taken to hang.

    Raises:
        DeviceFault: ``REFUSE``: the file cannot be opened; ``RETRY``: another worker held it for too long.
    """
    if file is None:
        yield
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("a")
    except OSError as error:
        problem = f"the lock under which workers load, {file}, cannot be opened: {error.strerror}"
        raise DeviceFault("load", 0, Action.REFUSE, problem) from error
    with lock:
        _wait(lock.fileno(), longest_wait_s)
        yield


def _wait(fd: int, longest_wait_s: float) -> None:
    end = time.monotonic() + longest_wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < end:
                time.sleep(_POLL_S)
                continue
            problem = f"another worker has been loading onto this device for more than {longest_wait_s:g} s"
            raise DeviceFault("load", 0, Action.RETRY, problem) from None
        return
