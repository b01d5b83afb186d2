"""What every loaded graph has: one run at a time, a stream that is empty between runs, and an orderly end."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from om_backend.acl.codes import STREAM_SYNC_TIMEOUT
from om_backend.acl.descriptor import Descriptor
from om_backend.acl.options import Options
from om_backend.acl.owned import Owned
from om_backend.acl.session import POISONING, Session, again, named
from om_backend.device.description import GraphDescription
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array, PlaceOutput

_LOG = logging.getLogger("voxrepo.device.acl")

STREAM = "stream"
"""What a graph's stream is called among what it owns."""

_LAST_DRAIN_MS = 2000
"""How long a stream that ran into the watchdog gets to drain when its graph is closed."""


@dataclass(frozen=True)
class LoadedModel:
    """A model that AscendCL has loaded, before there are buffers for it.

    Attributes:
        session: of the device.
        name: for texts.
        options: of the graph.
        stream: its stream, released with ``owned``.
        number: id of the loaded model.
        desc: handle of its descriptor.
        descriptor: what the descriptor says.
        owned: everything that must be given back, in order; buffers are added.
        description: for the callers.
    """

    session: Session
    name: str
    options: Options
    stream: int
    number: int
    desc: int
    descriptor: Descriptor
    owned: Owned
    description: GraphDescription


class AclGraph(ABC):
    """A graph on the device with its own stream.

    A stream is never left with work in it: the staging memory of the next run is that of this one.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.description = model.description
        self._session = model.session
        self._name = model.name
        self._options = model.options
        self._stream = model.stream
        self._owned = model.owned
        self._lock = threading.Lock()
        self._in_flight = False
        self._hung = False
        self._closed = False
        self._stopped: DeviceFault | None = None
        self.on_close: Callable[[], None] = lambda: None

    @abstractmethod
    def _run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        """Check the inputs, run, place the outputs. ``_in_flight`` is true while the stream may hold work."""

    @abstractmethod
    def _forget_views(self) -> None:
        """Drop all views on memory that is about to be given back."""

    def run(self, inputs: Sequence[Array], place: PlaceOutput) -> None:
        """Run once; see :class:`om_backend.device.interface.LoadedGraph`."""
        with self._lock:
            if self._closed:
                raise DeviceFault("run", 0, Action.RELOAD, f"{self._name}: the graph is closed; load it again")
            if self._stopped is not None:
                raise again(self._stopped, f"{self._name}: the graph was given up by an earlier fault")
            try:
                self._run(inputs, place)
            except DeviceFault as fault:
                worst = self._settle(fault)
                if worst.action is not Action.REQUEST:
                    shapes = [list(array.shape) for array in inputs]
                    _LOG.error("%s: the run with the shapes %s failed: %s", self._name, shapes, worst)
                raise named(worst, self._name) from fault
            except BaseException:
                if self._in_flight:
                    self._settle(DeviceFault("run", 0, Action.REQUEST, "the run was broken off"))
                raise

    def synchronize(self) -> None:
        """Wait until the stream is empty, at most for the watchdog's time; other threads of the process go on.

        Raises:
            DeviceFault: work on the stream failed, or did not end.
        """
        self._session.run.do("rt.synchronize_stream_with_timeout", self._stream, self._options.watchdog_ms)
        self._in_flight = False

    def _settle(self, fault: DeviceFault) -> DeviceFault:
        """Leave the stream empty after a fault, or give the context up; gives the worst fault met."""
        if fault.code == STREAM_SYNC_TIMEOUT:
            self._hung = True
        elif self._in_flight and fault.action not in POISONING:
            try:
                self.synchronize()
            except DeviceFault as later:
                return self._settle(_as_lost(later))
        self._session.note(fault)
        if fault.action is Action.RELOAD:
            self._stopped = fault
        return fault

    def close(self) -> None:
        """Give everything back in AscendCL's order; see :class:`om_backend.device.interface.LoadedGraph`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._forget_views()
            calls = self._session.close
            try:
                calls.do("rt.set_context", self._session.context)
            except DeviceFault as fault:
                self._session.note(fault)
            if self._drained() or self._stream_dropped():
                for met in self._owned.release():
                    self._session.note(met)
            else:
                left = self._owned.abandon()
                self._session.abandoned = True
                _LOG.error("%s: its stream does not drain; left to the end of the process: %s", self._name, left)
        self.on_close()

    def _drained(self) -> bool:
        """Wait for what is still in the stream; in a lost context any answer but a timeout says that nothing is."""
        calls = self._session.close
        if self._session.poisoned and not self._hung and not self._in_flight:
            return True  # asking a lost context would only fail again
        wait_ms = min(self._options.watchdog_ms, _LAST_DRAIN_MS) if self._hung else self._options.watchdog_ms
        try:
            calls.do("rt.synchronize_stream_with_timeout", self._stream, wait_ms)
        except DeviceFault as fault:
            self._session.note(fault)
            return fault.code != STREAM_SYNC_TIMEOUT
        return True

    def _stream_dropped(self) -> bool:
        """End the stream with the work in it, where this CANN can; only then may its memory be freed."""
        calls = self._session.close
        if not calls.has("rt.destroy_stream_force"):
            return False
        try:
            calls.do("rt.destroy_stream_force", self._stream)
        except DeviceFault as fault:
            self._session.note(fault)
            return False
        self._owned.forget(STREAM)
        return True


def _as_lost(fault: DeviceFault) -> DeviceFault:
    """A stream that could not be emptied may still write into the buffers, whatever the code says."""
    if fault.action in POISONING:
        return fault
    return DeviceFault(
        fault.call,
        fault.code,
        Action.RESTART,
        f"the stream could not be emptied after a failed run, the process is restarted: {fault.advice}",
        code_name=fault.code_name,
        text=fault.text,
    )
