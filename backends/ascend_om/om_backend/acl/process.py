"""AscendCL is initialised once per process and closed once, by whoever initialised it.

``acl.init`` answers 100002 when another library in the process (torch_npu, onnxruntime's CANN provider) did it before;
that is no failure, but then it is not ours to close.
"""

from __future__ import annotations

import os
import threading

from om_backend.acl.calls import Calls
from om_backend.acl.codes import REPEAT_FINALIZE, REPEAT_INITIALIZE
from om_backend.device.faults import Action, DeviceFault

_lock = threading.Lock()
_users = 0
_owner = False
_pid = 0


def acquire(calls: Calls) -> None:
    """Initialise AscendCL, or join the others of this process that use it.

    Raises:
        DeviceFault: it cannot be initialised, or this process was forked from one in which it was.
    """
    global _users, _owner, _pid  # noqa: PLW0603  the library's own state is per process
    with _lock:
        if _users == 0:
            # still the owner if closing it failed the last time
            _owner = calls.code("init", accept=(REPEAT_INITIALIZE,)) == 0 or _owner
            _pid = os.getpid()
        check_process()
        _users += 1


def check_process() -> None:
    """Refuse to work in a child forked after the initialisation, where every handle is dead.

    Raises:
        DeviceFault: this is such a child.
    """
    if _pid and os.getpid() != _pid:
        raise DeviceFault(
            "fork", 0, Action.RESTART, "this process was forked after AscendCL was initialised; start workers by spawn"
        )


def release(calls: Calls) -> None:
    """Leave; the last one closes AscendCL if it was this runtime that initialised it.

    Raises:
        DeviceFault: closing failed.
    """
    global _users, _owner, _pid  # noqa: PLW0603
    with _lock:
        _users = max(0, _users - 1)
        if _users or not _owner:
            return
        calls.code("finalize", accept=(REPEAT_FINALIZE,))
        _owner, _pid = False, 0
