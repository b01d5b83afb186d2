"""Device memory, each piece with pinned host memory of the same size beside it, through which it is filled and read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from om_backend.acl import enums
from om_backend.acl.calls import Calls
from om_backend.device.description import DeviceMemory

ALIGNMENT_BYTES = 64
SLACK_BYTES = 64
"""AscendCL takes a buffer that is up to 64 bytes short of what the model needs, and the device then touches memory
beyond it. With this much on top no such touch leaves the allocation."""

_HUGE_PAGE_BYTES = 2 << 20
_HUGE_FROM_BYTES = 1 << 20


def padded(size_bytes: int) -> int:
    """Bytes that are allocated for ``size_bytes``: rounded up to 64, plus 64."""
    return -(-max(size_bytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + SLACK_BYTES


def on_device(size_bytes: int) -> int:
    """Bytes that a piece of ``size_bytes`` takes from the device: whole pages of 2 MiB once above 1 MiB."""
    size = padded(size_bytes)
    return -(-size // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES if size > _HUGE_FROM_BYTES else size


class Piece:
    """Device memory for one tensor, and the host's view on what goes in or comes out.

    On a host with a card the view lies in pinned memory and the bytes are copied by the device; where host and device
    are one (``shared``), the view is the device memory itself and nothing is copied.

    Attributes:
        size_bytes: bytes that may be used.
        device: address on the device, 0 if there is none.
        host: the host's view, ``uint8 [size_bytes]``; ``None`` for pieces that the host never touches.
        host_address: its address; that of the device memory where they are one.
    """

    def __init__(self, size_bytes: int, *, shared: bool, hosted: bool = True) -> None:
        self.size_bytes = size_bytes
        self.device = 0
        self.host: npt.NDArray[np.uint8] | None = None
        self.host_address = 0
        self._shared = shared
        self._hosted = hosted

    def allocate(self, calls: Calls) -> None:
        """Get the memory. After a failure :meth:`free` gives back what was got.

        Raises:
            DeviceFault: there is none left.
        """
        size = padded(self.size_bytes)
        self.device = int(calls.get("rt.malloc", size, enums.MALLOC_HUGE_FIRST))
        if not self._hosted:
            return
        self.host_address = self.device if self._shared else int(calls.get("rt.malloc_host", size))
        view: Any = calls.value("util.ptr_to_numpy", self.host_address, (size,), enums.NUMPY_UINT8)
        self.host = view[: self.size_bytes]

    def view(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
        """The first bytes of the host's view as an array of that shape and dtype.

        Raises:
            ValueError: the piece is smaller, or the host has no view on it.
        """
        if self.host is None:
            raise ValueError("this memory is not seen by the host")
        size = dtype.itemsize
        for dim in shape:
            size *= dim
        return self.host[:size].view(dtype).reshape(shape)

    def free(self, calls: Calls) -> None:
        """Give everything back; what could not be given back is tried again by the next call.

        Raises:
            DeviceFault: a part could not be given back; the other one was.
        """
        self.host = None
        try:
            if self.host_address and not self._shared:
                calls.do("rt.free_host", self.host_address)
            self.host_address = 0
        finally:
            if self.device:
                calls.do("rt.free", self.device)
                self.device = 0


def device_memory(calls: Calls) -> DeviceMemory:
    """Free and total memory of the current device.

    Raises:
        DeviceFault: the device does not answer.
    """
    free, total = calls.get("rt.get_mem_info", enums.MEMORY_KIND_HBM)
    return DeviceMemory(int(free), int(total))
