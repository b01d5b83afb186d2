"""``acl.rt``: memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from acl.emulation import codes
from acl.emulation.binding import call, with_zero
from acl.emulation.devices import device_of, require
from acl.emulation.memory import ALIGNMENT_BYTES, Allocation, Span
from acl.emulation.state import ledger
from acl.emulation.streams import Stream, Task, TaskFault, check_hazards, pending
from acl.emulation.waiting import stream_of

H2H, H2D, D2H, D2D, DEFAULT, HOST_BUF_TO_DEVICE = range(6)
_SPARE_BYTES = 32

_DIRECTIONS = {
    H2H: (False, False),
    H2D: (False, True),
    HOST_BUF_TO_DEVICE: (False, True),
    D2H: (True, False),
    D2D: (True, True),
}
"""Per kind, whether source and destination are device memory."""


def allocate(size: int, spare_bytes: int = _SPARE_BYTES) -> tuple[Allocation | None, int]:
    """Device memory on the current device, charged against its capacity."""
    if size == 0:
        return None, ledger.fail(codes.INVALID_PARAM, "EE1001: the size to allocate is 0")
    device = require().device
    charged = -(-size // 32) * 32 + spare_bytes
    if not device.take(charged):
        return None, ledger.fail(
            codes.MEMORY_ALLOCATION,
            f"EL0004: {size} bytes of device memory asked for, {device.free_bytes} of {device.capacity_bytes} are free",
        )
    allocation = ledger.memory.add(size, "device", device.number, spare_bytes)
    allocation.charged_bytes = charged
    return allocation, codes.SUCCESS


@call("rt.malloc", "pi", with_zero, context=True, device=True)
def malloc(size: int, _policy: int) -> tuple[int, int]:
    """Device memory, 64-byte aligned, not zeroed."""
    allocation, code = allocate(size)
    return (allocation.address if allocation else 0), code


@call("rt.malloc_align32", "pi", with_zero, context=True, device=True)
def malloc_align32(size: int, _policy: int) -> tuple[int, int]:
    """Device memory without the spare 32 bytes at its end."""
    allocation, code = allocate(size, 0)
    return (allocation.address if allocation else 0), code


@call("rt.malloc_cached", "pi", with_zero, context=True, device=True)
def malloc_cached(size: int, _policy: int) -> tuple[int, int]:
    """Device memory that the device caches."""
    allocation, code = allocate(size)
    return (allocation.address if allocation else 0), code


@call("rt.malloc_host", "p", with_zero, context=True)
def malloc_host(size: int) -> tuple[int, int]:
    """Pinned host memory, 64-byte aligned."""
    if size == 0:
        return 0, ledger.fail(codes.INVALID_PARAM, "EE1001: the size to allocate is 0")
    return ledger.memory.add(size, "pinned", -1, ALIGNMENT_BYTES).address, codes.SUCCESS


def _release(pointer: int, kind: str, other_call: str) -> int:
    if pointer == 0:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the pointer to free is null")
    allocation = ledger.memory.at(pointer)
    if allocation is None:
        freed = ledger.memory.freed_at(pointer)
        if freed is not None:
            return ledger.misuse(
                codes.RT_INVALID_HANDLE, f"freed twice: the {freed.size} bytes made at {freed.made_at}"
            )
        return ledger.misuse(codes.RT_PARAM_INVALID, f"{pointer:#x} is no start of memory that this library gave out")
    if allocation.kind != kind:
        return ledger.misuse(
            codes.RT_PARAM_INVALID, f"the memory made at {allocation.made_at} must be freed with {other_call}"
        )
    whole = Span(allocation.address, allocation.padded, allocation)
    for task in pending:
        if any(whole.overlaps(span) for span in (*task.reads, *task.writes)):
            ledger.report.violation(f"memory is freed while {task.what} that is not waited for uses it")
            break
    ledger.memory.remove(allocation)
    device = device_of(allocation.device)
    if device is not None:
        device.give_back(allocation.charged_bytes)
    return codes.SUCCESS


@call("rt.free", "p", context=True, device=True)
def free(pointer: int) -> int:
    """Free device memory."""
    return _release(pointer, "device", "free_host")


@call("rt.free_host", "p", context=True)
def free_host(pointer: int) -> int:
    """Free pinned host memory."""
    return _release(pointer, "pinned", "free")


def _usable(span: Span, role: str) -> int:
    if not span.problem:
        return codes.SUCCESS
    ledger.report.violation(f"{role}: {span.problem}")
    return codes.RT_PARAM_INVALID if span.fatal else codes.SUCCESS


@dataclass(frozen=True)
class _Copy:
    source: Span
    target: Span
    kind: int

    @property
    def what(self) -> str:
        return f"a copy of {self.source.count} bytes"

    def do(self) -> None:
        source, target = self.source.view(), self.target.view()
        if source.size != self.source.count or target.size != self.target.count:
            # recorded when it was freed
            raise TaskFault(codes.RT_SYS_DMA, "EE9999: the memory of a queued copy is freed")
        np.copyto(target, source)
        if self.target.allocation is not None:
            self.target.allocation.filled(self.target.offset, self.target.count)


def _checked_copy(
    target: int, target_bytes: int, source: int, count: int, kind: int, last_kind: int
) -> tuple[_Copy | None, int]:
    """The copy, or ``None`` and the code with which the call ends (0: nothing to copy)."""
    if count == 0:
        return None, codes.SUCCESS
    if target == 0 or source == 0:
        return None, ledger.fail(codes.INVALID_PARAM, "EE1001: source or destination is null")
    if not H2H <= kind <= last_kind:
        return None, ledger.fail(codes.INVALID_PARAM, f"EE1001: the kind of copy {kind} is invalid")
    if count > target_bytes:
        return None, ledger.fail(
            codes.RT_PARAM_INVALID, f"EE1001: {count} bytes do not fit the {target_bytes} of the destination"
        )
    copy = _Copy(ledger.memory.span(source, count), ledger.memory.span(target, count), kind)
    code = _usable(copy.source, "source") or _usable(copy.target, "destination")
    if code:
        return None, code
    expected = _DIRECTIONS.get(kind)
    actual = (copy.source.on_device, copy.target.on_device)
    if expected is not None and expected != actual and ledger.settings.strict and ledger.settings.run_mode == 1:
        ledger.report.violation(
            f"kind {kind} does not fit its addresses: the source is {copy.source.name}, "
            f"the destination {copy.target.name}"
        )
    return copy, codes.SUCCESS


@call("rt.memcpy", "ppppi", context=True, device=True)
def memcpy(target: int, target_bytes: int, source: int, count: int, kind: int) -> int:
    """Copy now."""
    copy, code = _checked_copy(target, target_bytes, source, count, kind, HOST_BUF_TO_DEVICE)
    if copy is None:
        return code
    check_hazards(None, [copy.source], [copy.target])
    copy.do()
    return codes.SUCCESS


@call("rt.memcpy_async", "ppppip", context=True, device=True, locked=False)
def memcpy_async(target: int, target_bytes: int, source: int, count: int, kind: int, stream_handle: int) -> int:
    """Copy in a stream. Pinned memory is read when the stream gets there, not before."""
    with ledger.lock:
        stream, code = stream_of(stream_handle)
        if stream is None:
            return code
        copy, code = _checked_copy(target, target_bytes, source, count, kind, HOST_BUF_TO_DEVICE)
        if copy is None:
            return code
        if kind == H2H or (kind == DEFAULT and not copy.source.on_device and not copy.target.on_device):
            return ledger.fail(codes.FEATURE_NOT_SUPPORT, "EE1001: copies within the host cannot be asynchronous")
        check_hazards(stream, [copy.source], [copy.target])
        if kind == HOST_BUF_TO_DEVICE:
            return _submit_kept_aside(stream, copy)
        pageable = copy.source.allocation is None or copy.target.allocation is None
        if not pageable:
            _submit(stream, copy.what, copy.do, [copy.source], [copy.target])
            return codes.SUCCESS
    # pageable memory makes it synchronous: everything before it in the stream is done first
    code = stream.drain()
    if code == codes.SUCCESS:
        with ledger.lock:
            copy.do()
    return code


def _submit_kept_aside(stream: Stream, copy: _Copy) -> int:
    kept = copy.source.view().copy()

    def do() -> None:
        np.copyto(copy.target.view(), kept)
        if copy.target.allocation is not None:
            copy.target.allocation.filled(copy.target.offset, copy.target.count)

    _submit(stream, copy.what, do, [], [copy.target])
    return codes.SUCCESS


def _submit(stream: Stream, what: str, do: Callable[[], None], reads: list[Span], writes: list[Span]) -> None:
    stream.submit(Task(what, lambda: do, reads=reads, writes=writes))


def _checked_fill(pointer: int, most: int, count: int) -> tuple[Span | None, int]:
    if count == 0:
        return None, codes.SUCCESS
    if pointer == 0:
        return None, ledger.fail(codes.INVALID_PARAM, "EE1001: the destination is null")
    if count > most:
        return None, ledger.fail(codes.RT_PARAM_INVALID, f"EE1001: {count} bytes do not fit the {most}")
    span = ledger.memory.span(pointer, count)
    code = _usable(span, "destination")
    return (None, code) if code else (span, codes.SUCCESS)


def _fill(span: Span, value: int) -> None:
    span.view()[:] = value & 0xFF
    if span.allocation is not None:
        span.allocation.filled(span.offset, span.count)


@call("rt.memset", "ppip", context=True, device=True)
def memset(pointer: int, most: int, value: int, count: int) -> int:
    """Fill memory now."""
    span, code = _checked_fill(pointer, most, count)
    if span is None:
        return code
    check_hazards(None, [], [span])
    _fill(span, value)
    return codes.SUCCESS


@call("rt.memset_async", "ppipp", context=True, device=True)
def memset_async(pointer: int, most: int, value: int, count: int, stream_handle: int) -> int:
    """Fill memory in a stream."""
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    span, code = _checked_fill(pointer, most, count)
    if span is None:
        return code
    check_hazards(stream, [], [span])
    _submit(stream, f"a fill of {count} bytes", lambda: _fill(span, value), [], [span])
    return codes.SUCCESS
