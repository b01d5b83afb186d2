"""Device and pinned memory: what is allocated, at which made-up or real address, and what lies in it.

Device addresses are above 2**47, where no process has memory: whoever dereferences one crashes, as on hardware. The
bytes lie in ordinary arrays that only the calls of the library reach. In run mode 0 (device side) device memory has
real addresses.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from acl.emulation.report import site

Bytes = npt.NDArray[np.uint8]

ALIGNMENT_BYTES: Final = 64
ROUND_BYTES: Final = 32
SLACK_BYTES: Final = 64
POISON: Final = b"\xaa\xff"
"""What fresh memory and the tails of outputs hold: NaN as any float, far out of range as INT32 or INT64."""

_POISON_WORD: Final = int.from_bytes(POISON, "little")
_FIRST_DEVICE_ADDRESS: Final = 0x00A5_1240_0000_0000
_GUARD_BYTES: Final = 0x2000
_FREED_KEPT: Final = 2048
_FREED_PINNED_KEPT_BYTES: Final = 64 << 20

Kind = Literal["device", "pinned"]


def poison(target: Bytes, offset: int = 0) -> None:
    """Fill with the poison pattern; ``offset`` is the target's distance from the start of its allocation."""
    if not target.size:
        return
    if offset % 2:
        target[0] = POISON[1]
        target = target[1:]
    even = target.size // 2 * 2
    target[:even].view(np.uint16)[:] = _POISON_WORD
    if even < target.size:
        target[even] = POISON[0]


@dataclass(eq=False)
class Allocation:
    """One piece of memory.

    Attributes:
        address: first byte.
        size: bytes asked for.
        padded: bytes that the allocator hands out for that.
        kind: device or pinned host memory.
        device: number of the device it lies on; -1 for pinned memory.
        store: the padded bytes and ``SLACK_BYTES`` more, into which small overruns go as on hardware.
        made_at: creation call site.
        filled_from: offset of the last copy into it.
        filled_to: end of the bytes that the last copies filled without a gap.
        excused: its device failed, it cannot be freed any more.
        charged_bytes: what it takes of the device's capacity.
    """

    address: int
    size: int
    padded: int
    kind: Kind
    device: int
    store: Bytes = field(repr=False)
    made_at: str
    filled_from: int = 0
    filled_to: int = 0
    excused: bool = False
    charged_bytes: int = 0

    def filled(self, offset: int, count: int) -> None:
        """Remember that these bytes were written."""
        if offset == self.filled_to and self.filled_to > self.filled_from:
            self.filled_to += count
        else:
            self.filled_from, self.filled_to = offset, offset + count


@dataclass(frozen=True)
class Span:
    """Bytes ``offset`` to ``offset + count`` of an allocation, or pageable host memory if there is none.

    Attributes:
        problem: a sentence if the bytes are not all there, else "".
        fatal: the problem is such that hardware would fault.
    """

    address: int
    count: int
    allocation: Allocation | None
    offset: int = 0
    problem: str = ""
    fatal: bool = False

    @property
    def on_device(self) -> bool:
        """Whether it is device memory."""
        return self.allocation is not None and self.allocation.kind == "device"

    @property
    def pinned(self) -> bool:
        """Whether it is pinned host memory."""
        return self.allocation is not None and self.allocation.kind == "pinned"

    @property
    def name(self) -> str:
        """A noun for messages."""
        if self.allocation is None:
            return f"{self.count} bytes of pageable host memory"
        kind = "device" if self.on_device else "pinned host"
        return f"bytes {self.offset} to {self.offset + self.count} of {self.allocation.size} bytes of {kind} memory"

    def view(self) -> Bytes:
        """The bytes, writable, without a copy; as many of them as exist."""
        if self.allocation is not None:
            return self.allocation.store[self.offset : self.offset + self.count]
        return host_view(self.address, self.count)

    def overlaps(self, other: Span) -> bool:
        """Whether they share a byte."""
        return self.address < other.address + other.count and other.address < self.address + self.count


def host_view(address: int, count: int) -> Bytes:
    """Bytes of this process, writable, without a copy."""
    return np.frombuffer(memoryview((ctypes.c_uint8 * count).from_address(address)).cast("B"), dtype=np.uint8)


def in_device_range(address: int) -> bool:
    """Whether an address is above all that a process can map, as those of device memory are."""
    return address >= 1 << 47


def _aligned(count: int) -> Bytes:
    raw = np.empty(count + ALIGNMENT_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + count]


class AllocationMap:
    """All memory of the process that the library knows."""

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._live: dict[int, Allocation] = {}
        self._starts: list[int] = []
        self._freed: OrderedDict[int, Allocation] = OrderedDict()
        self._freed_pinned_bytes = 0
        self._next = _FIRST_DEVICE_ADDRESS

    def add(self, size: int, kind: Kind, device: int, spare_bytes: int) -> Allocation:
        """Allocate ``size`` bytes, rounded up to 32, plus ``spare_bytes``; filled with poison."""
        padded = -(-size // ROUND_BYTES) * ROUND_BYTES + spare_bytes
        store = _aligned(padded + SLACK_BYTES)
        poison(store)
        address = store.ctypes.data
        if kind == "device" and not self._shared:
            address = self._next
            self._next += -(-padded // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + _GUARD_BYTES
        allocation = Allocation(address, size, padded, kind, device, store, site())
        # a real address may come back after free
        self._freed.pop(address, None)
        self._live[address] = allocation
        bisect.insort(self._starts, address)
        return allocation

    def remove(self, allocation: Allocation) -> None:
        """Free it. Its bytes are poisoned, so that a dangling view reads nothing of use."""
        del self._live[allocation.address]
        self._starts.pop(bisect.bisect_left(self._starts, allocation.address))
        poison(allocation.store)
        if allocation.kind == "pinned" or self._shared:
            # numpy views may point there: keep the newest ones mapped, so that these are caught reading poison
            self._freed_pinned_bytes += allocation.padded
        else:
            allocation.store = allocation.store[:0]
        self._freed[allocation.address] = allocation
        while len(self._freed) > _FREED_KEPT or self._freed_pinned_bytes > _FREED_PINNED_KEPT_BYTES:
            _, oldest = self._freed.popitem(last=False)
            self._freed_pinned_bytes -= oldest.padded if oldest.store.size else 0

    def at(self, address: int) -> Allocation | None:
        """The live allocation that starts there."""
        return self._live.get(address)

    def freed_at(self, address: int) -> Allocation | None:
        """The allocation that started there and is freed."""
        return self._freed.get(address)

    def live(self) -> list[Allocation]:
        """All live allocations."""
        return list(self._live.values())

    def span(self, address: int, count: int) -> Span:
        """What lies at an address, checked against the map."""
        found = self._containing(address)
        if found is None:
            return self._unknown(address, count)
        offset = address - found.address
        problem = ""
        if offset + count > found.size:
            problem = (
                f"bytes {offset} to {offset + count} are beyond the {found.size} bytes that were allocated at "
                f"{found.made_at}"
            )
        return Span(address, count, found, offset, problem, fatal=offset + count > found.padded + SLACK_BYTES)

    def _containing(self, address: int) -> Allocation | None:
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        allocation = self._live[self._starts[index]]
        return allocation if address < allocation.address + max(allocation.padded, 1) else None

    def _unknown(self, address: int, count: int) -> Span:
        for freed in reversed(self._freed.values()):
            if freed.address <= address < freed.address + max(freed.padded, 1):
                # a real address may have gone to another owner since
                if in_device_range(address) or freed.store.size:
                    return Span(address, count, None, 0, f"the memory made at {freed.made_at} is freed already", True)
                break
        if in_device_range(address):
            return Span(address, count, None, 0, f"{address:#x} is no memory that this library gave out", True)
        return Span(address, count, None)

    def to_json(self) -> list[dict[str, Any]]:
        """A line per live allocation."""
        return [
            {
                "what": f"{item.size} bytes of {'device' if item.kind == 'device' else 'pinned host'} memory",
                "release": "acl.rt.free" if item.kind == "device" else "acl.rt.free_host",
                "site": item.made_at,
                "handle": item.address,
            }
            for item in self._live.values()
            if not item.excused
        ]
