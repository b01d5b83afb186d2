"""``acl.rt``: callbacks and the error level calls of newer versions."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from acl.emulation import codes
from acl.emulation.binding import call, handle_only
from acl.emulation.devices import current
from acl.emulation.state import ledger
from acl.emulation.streams import Stream, Task
from acl.emulation.waiting import stream_of

_NOT_SUBSCRIBED = 107020
_WAIT_TIMEOUT = 107019
_FIELDS = ("task_id", "stream_id", "thread_id", "device_id", "error_code")


@dataclass
class _Subscription:
    thread: int
    calls: queue.SimpleQueue[tuple[Callable[[Any], Any], Any]] = field(default_factory=queue.SimpleQueue)


_subscriptions: dict[int, _Subscription] = {}


@call("rt.subscribe_report", "pp", context=True)
def subscribe_report(thread: int, stream_handle: int) -> int:
    """Let a thread run the callbacks of a stream."""
    stream, code = stream_of(stream_handle)
    if stream is not None:
        _subscriptions[stream.handle] = _Subscription(thread)
    return code


@call("rt.unsubscribe_report", "pp", context=True)
def unsubscribe_report(_thread: int, stream_handle: int) -> int:
    """End that."""
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    return codes.SUCCESS if _subscriptions.pop(stream.handle, None) else codes.INVALID_PARAM


@call("rt.launch_callback", "ooip", context=True, device=True)
def launch_callback(function: Callable[[Any], Any], argument: Any, _block: int, stream_handle: int) -> int:
    """Queue ``function(argument)`` in a stream."""
    stream, code = stream_of(stream_handle)
    if stream is None:
        return code
    subscription = _subscriptions.get(stream.handle)
    if subscription is None:
        return ledger.fail(_NOT_SUBSCRIBED, "EE9999: no thread takes the callbacks of the stream")
    taken = subscription
    stream.submit(Task("a callback", lambda: lambda: taken.calls.put((function, argument))))
    return codes.SUCCESS


@call("rt.process_report", "i", locked=False)
def process_report(timeout_ms: int) -> int:
    """Run one callback that is due in this thread, waiting at most so long (-1: for ever)."""
    me = threading.get_ident()
    for handle, subscription in list(_subscriptions.items()):
        if subscription.thread != me:
            continue
        stream = ledger.handles.get(handle, Stream)
        if stream is not None and stream.tasks:
            stream.drain()
        try:
            function, argument = subscription.calls.get(timeout=None if timeout_ms < 0 else timeout_ms / 1e3)
        except queue.Empty:
            return _WAIT_TIMEOUT
        function(argument)
        return codes.SUCCESS
    return _NOT_SUBSCRIBED


@call("rt.set_exception_info_callback", "o")
def set_exception_info_callback(function: Callable[[int], Any] | None) -> int:
    """Kept; faults made to order carry no exception info, so it is never called."""
    if function is not None and not callable(function):
        raise TypeError("acl.rt.set_exception_info_callback args parse failed")
    return codes.SUCCESS


def _getter(name: str) -> Callable[[int], int]:
    @call(f"rt.get_{name}_from_exception_info", "p", handle_only)
    def getter(_info: int) -> int:
        """A field of an exception info; there are none here."""
        return 0

    return getter


get_task_id_from_exception_info, get_stream_id_from_exception_info = _getter(_FIELDS[0]), _getter(_FIELDS[1])
get_thread_id_from_exception_info, get_device_id_from_exception_info = _getter(_FIELDS[2]), _getter(_FIELDS[3])
get_error_code_from_exception_info = _getter(_FIELDS[4])


@call("rt.peek_at_last_error", "i")
def peek_at_last_error(_level: int) -> int:
    """The code that poisoned the current context, 0 if it is sound."""
    context = current()
    return 0 if context is None else context.error


@call("rt.get_last_error", "i")
def get_last_error(_level: int) -> int:
    """The same; reading does not cure a poisoned context."""
    context = current()
    return 0 if context is None else context.error
