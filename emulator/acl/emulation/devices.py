"""Devices and contexts. The current context is a matter of each thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from acl.emulation.codes import poisons
from acl.emulation.handles import Handled
from acl.emulation.state import ledger
from acl.emulation.streams import Stream


@dataclass(eq=False)
class Context(Handled):
    """A context.

    Attributes:
        device: where it lies.
        default_stream: used where a call is given stream 0.
        error: code of the fault that poisoned it, 0 while it is sound.
        alive: not destroyed.
    """

    device: Device
    is_default: bool = False
    default_stream: Stream = field(init=False)
    error: int = 0
    alive: bool = True

    what = "a context"
    call = "acl.rt.destroy_context"

    def __post_init__(self) -> None:
        self.default_stream = ledger.handles.add(Stream(self), owned=False)

    def streams(self) -> list[Stream]:
        """Live streams made in it, the default one first."""
        return [thing for thing in ledger.handles.live() if isinstance(thing, Stream) and thing.context is self]

    def fault(self, code: int) -> None:
        """A fault came up in it; after most of them nothing works here any more, nor can anything be released."""
        if not poisons(code):
            return
        self.error = code
        self.device.excused = True
        ledger.report.note("context poisoned", code=code)
        for allocation in ledger.memory.live():
            if allocation.device == self.device.number:
                allocation.excused = True
        for thing in ledger.handles.live():
            if getattr(thing, "context", None) is self or thing is self:
                thing.excused = True


@dataclass(eq=False)
class Device:
    """A device of the machine.

    Attributes:
        number: its id.
        references: ``set_device`` calls less ``reset_device`` calls.
        capacity_bytes: memory.
        lost: it does not answer any more.
        memory_error: the next synchronisation reports one.
        set_at: call site of the first ``set_device``.
        excused: it could not be reset.
        busy_until_s: ``time.monotonic`` at which its compute cores have done all work given so far.
    """

    number: int
    capacity_bytes: int
    references: int = 0
    lost: bool = False
    memory_error: bool = False
    busy_until_s: float = 0.0
    set_at: str = ""
    excused: bool = False
    default_context: Context | None = None

    @property
    def free_bytes(self) -> int:
        """Memory that no process has taken."""
        return max(0, self.capacity_bytes - ledger.device_use.total(self.number))

    def take(self, count: int) -> bool:
        """Take memory for an allocation or a model; whether there was enough."""
        return ledger.device_use.take(self.number, count, self.capacity_bytes)

    def give_back(self, count: int | None = None) -> None:
        """Give memory back, all of this process if ``count`` is not given."""
        ledger.device_use.give_back(self.number, count)

    def open_default(self) -> Context:
        """The context that all threads share which call ``set_device``."""
        if self.default_context is None:
            self.default_context = ledger.handles.add(Context(self, is_default=True), owned=False)
        return self.default_context


devices = [Device(number, ledger.settings.capacity_bytes) for number in range(ledger.settings.device_count)]


def _open_devices() -> list[dict[str, Any]]:
    return [
        {
            "what": f"device {device.number}, set {device.references} times more often than reset",
            "release": "acl.rt.reset_device",
            "site": device.set_at,
            "handle": device.number,
        }
        for device in devices
        if device.references and not device.excused
    ]


ledger.open_devices = _open_devices


def device_of(number: int) -> Device | None:
    """The device of that id."""
    return devices[number] if 0 <= number < len(devices) else None


def current() -> Context | None:
    """The calling thread's context, if it has one that is not destroyed."""
    context: Context | None = getattr(ledger.local, "context", None)
    return context if context is not None and context.alive else None


def require() -> Context:
    """The calling thread's context, in a call that the binding let through because there is one."""
    context = current()
    assert context is not None
    return context


def make_current(context: Context | None) -> None:
    """Set the calling thread's context."""
    ledger.local.context = context


def close_context(context: Context) -> None:
    """End a context and its streams."""
    context.alive = False
    for stream in context.streams():
        stream.drop()
        if stream.owned and not stream.excused and not context.error:
            ledger.report.violation(f"the context is ended while the stream made at {stream.made_at} is not destroyed")
        ledger.handles.remove(stream)
    ledger.handles.remove(context)
