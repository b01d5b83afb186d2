"""Runs a program that dies with its parent: ``python launch.py PARENT_PID PROGRAM [ARGUMENT ...]``.

A parent killed with -9 can clean up nothing, so the kernel must. This is a script of its own, and not a function
given to ``subprocess`` to run after the fork, because forking a process with gRPC's threads can hang.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process, also after an exec, when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before the call above
        sys.exit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  no shell wanted
