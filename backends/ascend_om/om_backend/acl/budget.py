"""Whether a model fits into the memory that a device has left; pure functions, told with numbers."""

from __future__ import annotations

from collections.abc import Iterable

from om_backend.acl.memory import on_device
from om_backend.device.description import DeviceMemory, MemoryNeed
from om_backend.device.faults import Action, DeviceFault

_MIB = 1 << 20


def buffers_bytes(sizes: Iterable[int]) -> int:
    """Device memory that buffers of these sizes take."""
    return sum(on_device(size) for size in sizes)


def check_budget(what: str, need: MemoryNeed, memory: DeviceMemory, reserve_bytes: int = 0) -> None:
    """Compare what a model needs with what is free.

    Args:
        what: the model's name for the text.
        need: what it needs now.
        memory: of the device now.
        reserve_bytes: must stay free.

    Raises:
        DeviceFault: ``REFUSE`` with all numbers.
    """
    left = memory.free_bytes - reserve_bytes
    if need.total_bytes <= left:
        return
    reserve = f" less {_mib(reserve_bytes)} held in reserve" if reserve_bytes else ""
    raise DeviceFault(
        "memory budget",
        0,
        Action.REFUSE,
        f"{what} needs {_mib(need.total_bytes)} on the device ({_mib(need.weights_bytes)} weights, "
        f"{_mib(need.work_bytes)} work memory, {_mib(need.buffers_bytes)} buffers) and {_mib(memory.free_bytes)} of "
        f"{_mib(memory.total_bytes)} are free{reserve}; unload a model, use fewer instances, or convert it with "
        "smaller gears",
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:.1f} MiB" if size_bytes >= _MIB // 10 else f"{size_bytes} bytes"
