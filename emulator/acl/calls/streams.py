"""``acl.rt``: streams, events and waiting."""

from __future__ import annotations

import time

from acl.emulation import codes
from acl.emulation.binding import call, with_zero
from acl.emulation.devices import device_of, require
from acl.emulation.state import ledger
from acl.emulation.streams import FOR_EVER, Event, Publish, Stream, Task, TaskFault
from acl.emulation.waiting import stream_of, wait

_STREAM_LIMITS = {"Ascend310P": 1024, "Ascend310B": 512, "Ascend910A": 2048, "Ascend910Pro": 2048}
_DEFAULT_STREAM_LIMIT = 1984
_NO_STREAM_RESOURCE = 207008
_COMPLETE = 0
_NOT_READY = 1


def _create() -> tuple[int, int]:
    context = require()
    limit = next((n for soc, n in _STREAM_LIMITS.items() if ledger.settings.soc.startswith(soc)), _DEFAULT_STREAM_LIMIT)
    count = sum(isinstance(thing, Stream) and thing.context.device is context.device for thing in ledger.handles.live())
    if count >= limit:
        return 0, ledger.fail(_NO_STREAM_RESOURCE, f"EE9999: all {limit} streams of the device are in use")
    return ledger.handles.add(Stream(context)).handle, codes.SUCCESS


@call("rt.create_stream", failure=with_zero, context=True, device=True)
def create_stream() -> tuple[int, int]:
    """A stream of the current context."""
    return _create()


@call("rt.create_stream_with_config", "uu", with_zero, context=True, device=True)
def create_stream_with_config(_priority: int, _flag: int) -> tuple[int, int]:
    """A stream of the current context; priority and flags change nothing here."""
    return _create()


def _destroy(handle: int, *, force: bool) -> int:
    if handle == 0:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: the stream is null")
    stream, code = stream_of(handle)
    if stream is None:
        return code
    if stream is stream.context.default_stream:
        return ledger.misuse(codes.RT_PARAM_INVALID, "the default stream is ended by reset_device, not by this call")
    if force:
        stream.drop()
    else:
        code = stream.drain()
    with ledger.lock:
        ledger.handles.remove(stream)
    return code


@call("rt.destroy_stream", "p", context=True, device=True, locked=False)
def destroy_stream(handle: int) -> int:
    """End a stream after its work is done."""
    return _destroy(handle, force=False)


@call("rt.destroy_stream_force", "p", context=True, device=True, locked=False)
def destroy_stream_force(handle: int) -> int:
    """End a stream and forget its work."""
    return _destroy(handle, force=True)


@call("rt.synchronize_stream", "p", context=True, device=True, locked=False)
def synchronize_stream(handle: int) -> int:
    """Wait for all work of a stream; other threads run meanwhile."""
    stream, code = stream_of(handle)
    return code if stream is None else wait(stream)


@call("rt.synchronize_stream_with_timeout", "pi", context=True, device=True, locked=False)
def synchronize_stream_with_timeout(handle: int, timeout_ms: int) -> int:
    """Wait for all work of a stream, at most so long (-1: for ever); after 507046 the work goes on."""
    if timeout_ms < FOR_EVER:
        return ledger.fail(codes.INVALID_PARAM, f"EE1001: the timeout {timeout_ms} ms is invalid")
    stream, code = stream_of(handle)
    return code if stream is None else wait(stream, timeout_ms)


@call("rt.synchronize_device", context=True, device=True, locked=False)
def synchronize_device() -> int:
    """Wait for all work of the device's streams in the current context."""
    for stream in require().streams():
        code = wait(stream)
        if code:
            return code
    return codes.SUCCESS


@call("rt.create_event", failure=with_zero, context=True, device=True)
def create_event() -> tuple[int, int]:
    """A mark to put into streams."""
    return ledger.handles.add(Event(require())).handle, codes.SUCCESS


def _event_of(handle: int) -> tuple[Event | None, int]:
    if handle == 0:
        return None, ledger.fail(codes.INVALID_PARAM, "EE1001: the event is null")
    event = ledger.handles.get(handle, Event)
    if event is None:
        return None, ledger.misuse(codes.RT_INVALID_HANDLE, f"not an event: {ledger.handles.describe(handle)}")
    return event, codes.SUCCESS


@call("rt.destroy_event", "p", context=True, device=True)
def destroy_event(handle: int) -> int:
    """End an event."""
    event, code = _event_of(handle)
    if event is not None:
        ledger.handles.remove(event)
    return code


@call("rt.record_event", "pp", context=True, device=True)
def record_event(handle: int, stream_handle: int) -> int:
    """Put a mark into a stream."""
    event, code = _event_of(handle)
    if event is None:
        return code
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    done_at = event

    def publish() -> None:
        done_at.done_s = time.monotonic()

    event.done_s = 0.0
    task = Task("an event", lambda: publish)
    stream.submit(task)
    event.stream, event.number = stream, task.number
    return codes.SUCCESS


def _is_done(event: Event) -> bool:
    return event.stream is None or event.stream.done_number >= event.number


@call("rt.query_event", "p", with_zero, context=True, device=True, locked=False)
def query_event(handle: int) -> tuple[int, int]:
    """0 if all work before the mark is done, 1 if not. Does what is due, so that a polling program gets on."""
    event, code = _event_of(handle)
    if event is None:
        return 0, code
    if event.stream is not None and not _is_done(event):
        code = event.stream.drain(0, event.number)
        if code == codes.RT_STREAM_SYNC_TIMEOUT:
            ledger.errors.take()
            return _NOT_READY, codes.SUCCESS
    return _COMPLETE, code


def _wait_for_event(handle: int, timeout_ms: int) -> int:
    event, code = _event_of(handle)
    if event is None or event.stream is None:
        return code
    code = event.stream.drain(timeout_ms, event.number)
    if code == codes.RT_STREAM_SYNC_TIMEOUT:
        ledger.errors.take()
        return ledger.fail(codes.RT_EVENT_SYNC_TIMEOUT, "EE1002: waiting for the event took longer than allowed")
    return code


@call("rt.synchronize_event", "p", context=True, device=True, locked=False)
def synchronize_event(handle: int) -> int:
    """Wait until all work before the mark is done."""
    return _wait_for_event(handle, FOR_EVER)


@call("rt.synchronize_event_with_timeout", "pi", context=True, device=True, locked=False)
def synchronize_event_with_timeout(handle: int, timeout_ms: int) -> int:
    """Wait until all work before the mark is done, at most so long."""
    return _wait_for_event(handle, timeout_ms)


@call("rt.event_elapsed_time", "pp", lambda code: (0.0, code), context=True, device=True)
def event_elapsed_time(first_handle: int, second_handle: int) -> tuple[float, int]:
    """Milliseconds between two marks that are done."""
    first, code = _event_of(first_handle)
    second, second_code = _event_of(second_handle)
    if first is None or second is None:
        return 0.0, code or second_code
    if not first.done_s or not second.done_s:
        return 0.0, ledger.fail(codes.RT_PARAM_INVALID, "EE1001: an event is not recorded or not done")
    return (second.done_s - first.done_s) * 1e3, codes.SUCCESS


@call("rt.stream_wait_event", "pp", context=True, device=True)
def stream_wait_event(stream_handle: int, handle: int) -> int:
    """Let a stream wait for a mark in another one."""
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    event, code = _event_of(handle)
    if event is None:
        return code
    source, number = event.stream, event.number
    if source is None or source is stream:
        return codes.SUCCESS

    def prepare() -> Publish:
        failed = source.drain(FOR_EVER, number)
        if failed:
            raise TaskFault(failed, "EE9999: the stream that this one waits for failed")
        return lambda: None

    stream.submit(Task("waiting for an event", prepare))
    stream.follows[source.handle] = max(number, stream.follows.get(source.handle, 0))
    return codes.SUCCESS


@call("rt.set_op_wait_timeout", "u")
def set_op_wait_timeout(_seconds: int) -> int:
    """Accepted; operators do not wait here."""
    return codes.SUCCESS


@call("rt.set_op_execute_timeout", "u")
def set_op_execute_timeout(_seconds: int) -> int:
    """Accepted; operators have no watchdog here."""
    return codes.SUCCESS


@call("rt.device_task_abort", "iu")
def device_task_abort(number: int, _timeout_ms: int) -> int:
    """Drop the work of a device; later waits in the process fail with 107022."""
    device = device_of(number)
    if device is None:
        return ledger.fail(codes.RT_INVALID_DEVICE, f"EE1001: device id {number} is invalid")
    for thing in ledger.handles.live():
        if isinstance(thing, Stream) and thing.context.device is device:
            thing.drop()
    ledger.aborted = True
    return codes.SUCCESS
