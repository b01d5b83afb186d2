"""The lock under which servers of one root change what their engines read.

An engine reads a model's configuration whenever it loads that model, or any ensemble over it. Several servers may share
a root, and each of them loads at its own moment; so each writes what its own engine is to read, and has read it, while
it holds this lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from voxrepo.repository.layout import Layout

log = logging.getLogger(__name__)

LOCK_FILE = "publish.lock"
LOCK_WAIT_S = 300.0
"""Another server of this root may be loading; its loads have limits of their own."""
RECOVERY_WAIT_S = 10.0
"""Likewise while requests are held: they wait for half a minute at most, and the recovery takes its time, too."""
LOOK_INTERVAL_S = 0.1


@dataclass
class _Mine:
    """What this process holds of the lock of one root."""

    handle: int
    users: int = 1


_mine: dict[Path, _Mine] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def publishing(
    layout: Layout, give_up: Callable[[], bool] = lambda: False, wait_s: float = LOCK_WAIT_S
) -> Iterator[bool]:
    """Hold the lock, or go on without it once the wait is over.

    There is one lock for each server: what a process does at the same time shares it, and is kept apart by whoever
    begins it. A cure must not wait for an arm that the same server is loading, which may itself need the cure.

    A server that cannot get it goes on all the same, as do those on a file system without locks: what another one
    writes at that moment can at worst make a load fail, which is noticed.

    Args:
        layout: of the root.
        give_up: asked while waiting; if true, the wait ends.
        wait_s: longest wait.

    Yields:
        whether no other server is known to hold it.
    """
    file = layout.rollouts / LOCK_FILE
    is_mine, is_alone = False, True
    try:
        is_mine = is_alone = _wait_for(file, give_up, wait_s)
    except OSError as error:
        log.info("%s cannot be locked: %s", file, error.strerror)
    try:
        yield is_alone
    finally:
        if is_mine:
            _leave(file)


def _wait_for(file: Path, give_up: Callable[[], bool], wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    is_told = False
    while not give_up():
        if _enter(file):
            return True
        if time.monotonic() > end:
            log.warning("another server of this root has been loading for %g s; not waited for", wait_s)
            return False
        if not is_told:
            log.info("another server of this root is loading; waiting up to %g s for it", wait_s)
            is_told = True
        time.sleep(LOOK_INTERVAL_S)
    return False


def _enter(file: Path) -> bool:
    with _guard:
        mine = _mine.get(file)
        if mine is not None:
            mine.users += 1
            return True
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError:
            os.close(handle)
            raise
        _mine[file] = _Mine(handle)
        return True


def _leave(file: Path) -> None:
    with _guard:
        mine = _mine[file]
        mine.users -= 1
        if mine.users == 0:
            os.close(_mine.pop(file).handle)
