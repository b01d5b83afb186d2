"""How Python calls reach the library: positional arguments, C conversions, failing calls, faults made to order."""

from __future__ import annotations

import functools
import operator
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from acl.emulation import codes, devices
from acl.emulation.devices import Context
from acl.emulation.faults import EVENTS
from acl.emulation.handles import Handled
from acl.emulation.models import find_model
from acl.emulation.state import ledger
from acl.emulation.streams import Stream

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Failure = Callable[[int], Any]

_AFTER_INIT: Final = ("rt.", "mdl.")
_RELEASING: Final = ("free", "destroy", "unload", "reset")

_MASK_64: Final = (1 << 64) - 1
_MASK_32: Final = (1 << 32) - 1


def ret(code: int) -> Any:
    """For calls that return just the code."""
    return code


def with_zero(code: int) -> Any:
    """For calls that return (number, code)."""
    return 0, code


def with_two_zeros(code: int) -> Any:
    """For calls that return (number, number, code)."""
    return 0, 0, code


def with_dict(code: int) -> Any:
    """For calls that return (dict, code)."""
    return {}, code


def handle_only(_code: int) -> Any:
    """For calls that return a handle or size and have no code."""
    return 0


def _pointer(value: Any) -> int:
    # unsigned long without overflow check: only real ints pass, and they wrap
    if not isinstance(value, int):
        raise TypeError
    return value & _MASK_64


def _unsigned(value: Any) -> int:
    return operator.index(value) & _MASK_32


def _signed(value: Any) -> int:
    number = operator.index(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise TypeError
    return number


def _float(value: Any) -> float:
    return float(operator.index(value)) if not isinstance(value, float) else value


def _exactly(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return convert


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "p": _pointer,
    "u": _unsigned,
    "i": _signed,
    "f": _float,
    "s": _exactly(str),
    "l": _exactly(list),
    "t": _exactly(tuple),
    "d": _exactly(dict),
    "o": lambda value: value,
}
"""``p`` pointer, handle or 64-bit size; ``u`` uint32; ``i`` int32; ``f`` number; ``s`` str; ``l`` list; ``t`` tuple;
``d`` dict; ``o`` any object. What follows ``|`` may be left out."""


def call(
    name: str,
    arguments: str = "",
    failure: Failure = ret,
    *,
    context: bool = False,
    device: bool = False,
    executor: bool = False,
    locked: bool = True,
    converters: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Make a function a call of the library.

    Args:
        name: as below ``acl``, e.g. ``rt.malloc``.
        arguments: a letter per argument.
        failure: makes the return value of a failing call from a code.
        context: 107002 without a current context.
        device: talks to the device, so it fails in a poisoned context or on a lost device.
        executor: 145001 before ``acl.init``, which is what starts the executor.
        locked: does not wait for the device; runs under the ledger's lock.
        converters: further letters, for arguments that only this call has.
    """
    needed, _, optional = arguments.partition("|")
    known = {**_CONVERTERS, **(converters or {})}
    chosen = tuple(known[letter] for letter in needed + optional)
    fewest, most = len(needed), len(chosen)
    full_name = f"acl.{name}"

    def decorate(function: FunctionT) -> FunctionT:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if kwargs or not fewest <= len(args) <= most:
                raise TypeError(f"{full_name} args parse failed")
            try:
                converted = [convert(arg) for convert, arg in zip(chosen, args, strict=False)]
            except (TypeError, ValueError, OverflowError):
                raise TypeError(f"{full_name} args parse failed") from None
            ledger.local.call = full_name
            start_s = time.perf_counter()
            try:
                with ledger.lock:
                    ledger.report.calls[full_name] += 1
                    code = _gate(name, converted, context, device, executor)
                    if code:
                        return failure(code)
                    if locked:
                        return function(*converted)
                return function(*converted)
            finally:
                ledger.report.seconds[full_name] += time.perf_counter() - start_s

        wrapper.__name__ = wrapper.__qualname__ = name.rpartition(".")[2]
        return wrapper  # type: ignore[return-value]

    return decorate


def _gate(name: str, args: Sequence[Any], needs_context: bool, needs_device: bool, needs_executor: bool) -> int:
    """The code with which the call fails before it does anything; 0 to go on."""
    if os.getpid() != ledger.pid and not _adopted_by_child():
        ledger.report.violation(
            "called in a forked child of the process that initialised the library; spawn processes instead",
            once=f"fork {os.getpid()}",
        )
        return codes.RT_DEV_SETUP
    if ledger.init_count == 0 and name.startswith(_AFTER_INIT):
        state = "after acl.finalize" if ledger.finalized else "before acl.init"
        ledger.report.violation(f"called {state}", once=f"{name} {state}")
        if needs_executor:
            return ledger.fail(codes.GE_EXEC_NOT_INIT, f"E19999: the executor does not run, {state}")
    waiting = ledger.faults.look()
    current = devices.current()
    if waiting:
        _apply_events(current)
    if needs_context and current is None:
        return ledger.fail(codes.RT_CONTEXT_NULL, "EE1023: this thread has no current context")
    if waiting:
        fault = ledger.faults.take(name)
        if fault is not None:
            return _inject(name, args, current, fault.code, fault.text)
    if needs_device and current is not None:
        if current.device.lost or current.error:
            # whoever waits is told that it failed, and nothing is left to wait for
            _drop_awaited(name, args, current)
        if current.device.lost:
            return ledger.fail(codes.RT_LOST_HEARTBEAT, "EL0004: the heartbeat of the device is lost")
        if current.error:
            return ledger.fail(current.error, f"EE9999: the context failed before, with {current.error}")
        if ledger.aborted:
            return codes.RT_TASK_ABORT
    return codes.SUCCESS


def _adopted_by_child() -> bool:
    """A forked child may use the library if its parent had imported it only."""
    used = ledger.init_count or ledger.handles.live() or any(device.references for device in devices.devices)
    if not used:
        ledger.pid = os.getpid()
    return not used


def _apply_events(current: Context | None) -> None:
    for event in EVENTS:
        fault = ledger.faults.take(event)
        if fault is None:
            continue
        device = current.device if current is not None else devices.device_of(0)
        if device is None:
            continue
        if event == "device_lost":
            device.lost = True
            for context in [thing for thing in ledger.handles.live() if isinstance(thing, Context)]:
                if context.device is device:
                    context.fault(codes.RT_LOST_HEARTBEAT)
        elif event == "ecc":
            device.memory_error = True
        else:
            device.capacity_bytes = int(fault.amount)


def _drop_awaited(name: str, args: Sequence[Any], current: Context) -> None:
    """Forget the work that a synchronising call waits for."""
    if name.startswith("rt.synchronize_stream"):
        stream = current.default_stream if not args[0] else ledger.handles.get(args[0], Stream)
        if stream is not None:
            stream.drop()
    elif name == "rt.synchronize_device":
        for stream in current.streams():
            stream.drop()


def _inject(name: str, args: Sequence[Any], current: Context | None, code: int, text: str) -> int:
    if current is not None:
        # what was queued failed or hangs: it has no results
        _drop_awaited(name, args, current)
        current.fault(code)
    if name == "rt.reset_device":
        device = devices.device_of(args[0])
        if device is not None:
            device.excused = True
    elif args and isinstance(args[0], int) and name.rpartition(".")[2].startswith(_RELEASING):
        # the user did try to release it
        excused = ledger.memory.at(args[0]) or ledger.handles.get(args[0], Handled) or find_model(args[0])
        if excused is not None:
            excused.excused = True
    return ledger.fail(code, text)
