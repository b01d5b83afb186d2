"""The ledger of the process: everything that calls create, change and must release."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any

from acl.emulation import settings as settings_file
from acl.emulation.device_use import DeviceUse
from acl.emulation.faults import Faults
from acl.emulation.handles import HandleTable
from acl.emulation.memory import AllocationMap
from acl.emulation.report import Report
from acl.emulation.texts import RecentErrors


class Ledger:
    """State of the emulated library.

    Attributes:
        lock: held by every call that does not wait for the device.
        init_count: references by ``acl.init``; 0 before and after.
        foreign_owner: another library initialised first, it must do the finalizing.
        finalized: ``acl.finalize`` was called.
        pid: process that did the first init; a forked child has another one.
        init_at: call site of that init.
        open_devices: lists devices that were set and not reset.
        local: per thread: ``call`` (name of the running call), ``context``.
    """

    def __init__(self) -> None:
        self.settings = settings_file.load()
        self.lock = threading.RLock()
        self.report = Report(
            self.settings.report_dir,
            {"soc": self.settings.soc, "compute": self.settings.compute, "old_cann": self.settings.old_cann},
        )
        self.errors = RecentErrors()
        self.handles = HandleTable()
        self.device_use = DeviceUse(self.settings.memory_file)
        self.memory = AllocationMap(shared=self.settings.run_mode == 0)
        self.faults = Faults(self.settings.fault_dir, self.report)
        self.foreign_owner = self.settings.already_initialised
        self.init_count = 1 if self.foreign_owner else 0
        self.finalized = False
        self.aborted = False
        self.config_path: str | None = None
        self.pid = os.getpid()
        self.local = self.report.thread
        self.init_at = ""
        self.open_devices: Callable[[], list[dict[str, Any]]] = list
        self._ended = False

    def fail(self, code: int, text: str = "") -> int:
        """A code to return, after its text is put where ``get_recent_err_msg`` finds it."""
        self.errors.push(text)
        return code

    def misuse(self, code: int, sentence: str) -> int:
        """A code to return for something that a correct program never does."""
        self.report.violation(sentence)
        return code

    def leaks(self) -> list[dict[str, Any]]:
        """What is not released now."""
        leaks = [*self.memory.to_json(), *self.handles.to_json(), *self.open_devices()]
        if self.init_count and not self.foreign_owner and not self.report.calls["acl.finalize"]:
            leaks.append({"what": "the library itself", "release": "acl.finalize", "site": self.init_at, "handle": 0})
        return leaks

    def end(self) -> None:
        """Report what is not released, once, in the process that made it."""
        if self._ended or os.getpid() != self.pid or not self.report.calls:
            return
        self._ended = True
        left = sum(item.excused for item in self.memory.live())
        left += sum(item.excused for item in self.handles.live())
        self.report.end(self.leaks(), left)


ledger = Ledger()
# registered at import: handlers that a program registers after importing acl run before this one
atexit.register(ledger.end)
