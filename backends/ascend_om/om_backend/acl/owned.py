"""What was made and must be given back, in the order opposite to its making."""

from __future__ import annotations

import logging
from collections.abc import Callable

from om_backend.device.faults import Action, DeviceFault

_LOG = logging.getLogger("voxrepo.device.acl")

_POISONED = (Action.RESTART, Action.OUT_OF_SERVICE)
_RUNTIME_INTERNAL = range(507000, 508000)


class Owned:
    """A stack of releases. A step that fails does not stop the others; nothing is released twice.

    Args:
        label: what it belongs to, for the log.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._steps: list[tuple[str, Callable[[], None]]] = []

    def add(self, what: str, release: Callable[[], None]) -> None:
        """Note that ``what`` was made and how it is released."""
        self._steps.append((what, release))

    def forget(self, what: str) -> None:
        """``what`` was released in another way."""
        self._steps = [step for step in self._steps if step[0] != what]

    def release(self) -> list[DeviceFault]:
        """Release everything, the latest first; gives the faults of what could not be released.

        A step that fails is tried once more at once, since the order must hold and a busy thing may be free by now;
        not after a code of the runtime that says that the context is lost.
        """
        faults: list[DeviceFault] = []
        while self._steps:
            what, release = self._steps.pop()
            for attempt in (1, 2):
                try:
                    release()
                    break
                except DeviceFault as fault:
                    _LOG.warning("%s: releasing the %s failed at attempt %d: %s", self._label, what, attempt, fault)
                    lost = fault.action in _POISONED and fault.code in _RUNTIME_INTERNAL
                    if lost or attempt == 2:
                        faults.append(fault)
                        break
        return faults

    def abandon(self) -> list[str]:
        """Release nothing, ever: the device still works on it. Gives what is left to the end of the process."""
        left = [what for what, _ in self._steps]
        self._steps.clear()
        return left
