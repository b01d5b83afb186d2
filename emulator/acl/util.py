"""``acl.util``: between Python objects and pointers."""

from __future__ import annotations

import ctypes
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from acl.emulation.binding import call, handle_only, with_zero
from acl.emulation.dtypes import numpy_of_number
from acl.emulation.memory import host_view, in_device_range
from acl.emulation.state import ledger

Array = npt.NDArray[Any]


class DevicePointerError(RuntimeError):
    """The host touched memory that is not its own; on hardware the process ends here."""


def _refuse(sentence: str) -> DevicePointerError:
    ledger.report.violation(sentence)
    return DevicePointerError(sentence)


def _readable(pointer: int, size: int) -> None:
    span = ledger.memory.span(pointer, size)
    if in_device_range(pointer):
        raise _refuse("the host reads a device pointer, which ends the process on hardware; copy it to the host first")
    if pointer == 0 and size:
        raise _refuse("the host reads a null pointer")
    if span.problem:
        raise _refuse(f"the host reads memory that is not its own: {span.problem}")


@call("util.numpy_to_ptr", "o", handle_only)
def numpy_to_ptr(array: Array) -> int:
    """Address of an array's data; the caller keeps the array."""
    if not isinstance(array, np.ndarray):
        raise ValueError("acl.util.numpy_to_ptr: the argument is not an ndarray")
    if not ledger.settings.old_cann:
        warnings.warn("numpy_to_ptr is deprecated, use bytes_to_ptr", DeprecationWarning, stacklevel=3)
    if not array.flags.c_contiguous:
        warnings.warn("the array is not contiguous", UserWarning, stacklevel=3)
        ledger.report.violation("the array is not C-contiguous: its pointer does not stand for its elements in order")
    return array.ctypes.data


@call("util.numpy_contiguous_to_ptr", "o", lambda _code: (0, None))
def numpy_contiguous_to_ptr(array: Array) -> tuple[int, Array]:
    """Address of an array's data in order, and the array that must be kept for it."""
    if not isinstance(array, np.ndarray):
        raise ValueError("acl.util.numpy_contiguous_to_ptr: the argument is not an ndarray")
    contiguous = np.ascontiguousarray(array)
    return contiguous.ctypes.data, contiguous


@call("util.ptr_to_numpy", "pti", lambda _code: None)
def ptr_to_numpy(pointer: int, shape: tuple[Any, ...], number: int) -> Array:
    """A view of host memory as an array, not a copy; ``number`` is numpy's own number of the type."""
    dtype = numpy_of_number(number)
    if dtype is None or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise TypeError("acl.util.ptr_to_numpy args parse failed")
    size = math.prod(shape) * dtype.itemsize
    _readable(pointer, size)
    return host_view(pointer, size).view(dtype).reshape(shape)


@call("util.bytes_to_ptr", "o", handle_only)
def bytes_to_ptr(value: bytes) -> int:
    """Address of the bytes, which the caller keeps and never writes through it."""
    if not isinstance(value, bytes):
        raise ValueError("acl.util.bytes_to_ptr: the argument is not bytes")
    return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value or 0


@call("util.ptr_to_bytes", "pp", lambda _code: b"")
def ptr_to_bytes(pointer: int, size: int) -> bytes:
    """A copy of host memory."""
    _readable(pointer, size)
    return ctypes.string_at(pointer, size)


@call("util.start_thread", "oo", with_zero)
def start_thread(function: Callable[[Any], Any], arguments: Any) -> tuple[int, int]:
    """A thread that calls ``function(arguments)``."""
    thread = threading.Thread(target=function, args=(arguments,), daemon=True)
    thread.start()
    _threads[thread.ident or 0] = thread
    return thread.ident or 0, 0


@call("util.stop_thread", "p", locked=False)
def stop_thread(number: int) -> int:
    """Wait for such a thread's end."""
    thread = _threads.pop(number, None)
    if thread is not None:
        thread.join()
    return 0


_threads: dict[int, threading.Thread] = {}
