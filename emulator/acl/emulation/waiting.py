"""Finding a stream by its handle, and waiting for it."""

from __future__ import annotations

from acl.emulation import codes
from acl.emulation.devices import require
from acl.emulation.state import ledger
from acl.emulation.streams import FOR_EVER, Stream


def stream_of(handle: int) -> tuple[Stream | None, int]:
    """The stream of that handle (0: the default one), if it is one of the current context; else ``None`` and a code."""
    context = require()
    if handle == 0:
        return context.default_stream, codes.SUCCESS
    stream = ledger.handles.get(handle, Stream)
    if stream is None:
        return None, ledger.misuse(codes.RT_INVALID_HANDLE, f"not a stream: {ledger.handles.describe(handle)}")
    if stream.context is not context:
        return None, ledger.fail(codes.RT_STREAM_CONTEXT, "EE9999: the stream is not of the current context")
    return stream, codes.SUCCESS


def wait(stream: Stream, timeout_ms: int = FOR_EVER) -> int:
    """Do the queued work of a stream; faults of the work and of the device come up here."""
    device = stream.context.device
    if device.memory_error:
        with ledger.lock:
            stream.drop()
            stream.context.fault(codes.RT_HBM_ECC)
        return ledger.fail(codes.RT_HBM_ECC, "EL0004: a memory error of the device that cannot be corrected")
    return stream.drain(timeout_ms)
