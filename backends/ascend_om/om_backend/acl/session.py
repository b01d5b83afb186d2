"""What all graphs of one opened device share: its context, and whether that context can still be trusted."""

from __future__ import annotations

import logging
import threading
from typing import Any

from om_backend.acl import process
from om_backend.acl.calls import Calls
from om_backend.acl.codes import Phase
from om_backend.device.faults import Action, DeviceFault

_LOG = logging.getLogger("voxrepo.device.acl")

POISONING = (Action.RESTART, Action.OUT_OF_SERVICE)


class Session:
    """One device, one context of our own, any number of graphs and threads.

    Attributes:
        context: handle of the context, 0 while there is none.
        shared: host and device memory are one.
        soc: the chip's name, "" if AscendCL does not tell.
        emulator: the ``acl`` module is the emulator.
        open: calls while the device is opened.
        load: calls while a graph is loaded.
        run: calls of a run.
        close: calls that give something back.
        abandoned: something was left to the device that it still works on.
    """

    def __init__(self, module: Any) -> None:
        self.context = 0
        self.shared = False
        self.soc = ""
        self.emulator = getattr(module, "EMULATOR", False) is True
        self.open = Calls(module, Phase.OPEN)
        self.load = Calls(module, Phase.LOAD)
        self.run = Calls(module, Phase.RUN)
        self.close = Calls(module, Phase.CLOSE)
        self.abandoned = False
        self._poison: DeviceFault | None = None
        self._lock = threading.Lock()

    @property
    def poisoned(self) -> bool:
        """Whether a fault has made the context unusable."""
        return self._poison is not None

    def enter(self, calls: Calls) -> None:
        """Make the context current for this thread; done at every entry, since any thread may come.

        Raises:
            DeviceFault: the context is lost, or this process was forked.
        """
        if self._poison is not None:
            raise again(self._poison, "the device context was lost by an earlier fault")
        process.check_process()
        calls.do("rt.set_context", self.context)

    def note(self, fault: DeviceFault) -> None:
        """Remember a fault after which nothing of this context may be trusted.

        AscendCL goes on after an asynchronous fault by default, and later results may be wrong with code 0.
        """
        if fault.action in POISONING:
            with self._lock:
                if self._poison is None:
                    self._poison = fault
                    _LOG.error("the device context is given up: %s", fault)


def again(fault: DeviceFault, why: str) -> DeviceFault:
    """A fault like an earlier one, for a call that was not made because of it."""
    return DeviceFault(
        fault.call, fault.code, fault.action, f"{why}: {fault.advice}", code_name=fault.code_name, text=fault.text
    )


def named(fault: DeviceFault, name: str) -> DeviceFault:
    """The same fault with the graph's name in its sentence."""
    if fault.advice.startswith(name) or f"/{name}: " in fault.advice:
        return fault
    return DeviceFault(
        fault.call, fault.code, fault.action, f"{name}: {fault.advice}", code_name=fault.code_name, text=fault.text
    )
