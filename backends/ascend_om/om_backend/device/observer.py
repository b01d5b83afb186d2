"""What can be heard of a device worker."""

from __future__ import annotations

from enum import Enum

from om_backend.device.faults import Action


class State(str, Enum):
    """See the picture in :mod:`om_backend.device.client`."""

    NEW = "new"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    OUT_OF_SERVICE = "out_of_service"
    CLOSED = "closed"


class Observer:
    """Hears what happens on a device; the default does not care. Called from several threads."""

    def restarted(self) -> None:
        """A worker was started after the first one."""

    def fault(self, action: Action) -> None:
        """A device call failed."""

    def run(self, graph: str, device_s: float) -> None:
        """A run was good; ``device_s`` is the runtime's time for it."""

    def state(self, runtime: str, state: State) -> None:
        """The state of the worker of ``runtime`` changed."""
