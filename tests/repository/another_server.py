"""Another server of the same root, as far as this one notices it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from voxrepo.repository.layout import Layout
from voxrepo.repository.publishing import LOCK_FILE


@contextlib.contextmanager
def another_server(layout: Layout) -> Iterator[None]:
    """Another server is loading, having waited for those that did before."""
    handle = _open(layout)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def may_load(layout: Layout) -> bool:
    """Whether another server would get to load now."""
    handle = _open(layout)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _open(layout: Layout) -> int:
    layout.rollouts.mkdir(parents=True, exist_ok=True)
    return os.open(layout.rollouts / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
