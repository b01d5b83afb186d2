"""Handles: plain integers that stand for objects of the library, and who must release them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from acl.emulation.report import site

ObjectT = TypeVar("ObjectT", bound="Handled")

# above 2**47: no mapped address of a process on x86-64 or arm64 looks like this, so dereferencing one faults
_FIRST_HANDLE: Final = 0x00A6_3C00_0000_1340
_STEP: Final = 0x1C0
_DEAD_KEPT: Final = 4096


@dataclass(eq=False)
class Handled:
    """An object behind a handle.

    Attributes:
        handle: its number.
        what: a noun for messages, with article.
        call: the call that releases it.
        made_at: creation call site.
        owned: the user must release it (else the library does).
        excused: cannot be released any more, because its device failed.
    """

    handle: int = field(default=0, init=False)
    made_at: str = field(default="", init=False)
    owned: bool = field(default=True, init=False)
    excused: bool = field(default=False, init=False)

    what = "an object"
    call = ""


class HandleTable:
    """All live objects, and the last dead ones, to tell a stale handle from a wrong one."""

    def __init__(self) -> None:
        self._next = _FIRST_HANDLE
        self._live: dict[int, Handled] = {}
        self._dead: OrderedDict[int, str] = OrderedDict()

    def add(self, thing: ObjectT, *, owned: bool = True) -> ObjectT:
        """Give a new object a handle; numbers are never used twice."""
        thing.handle = self._next
        thing.owned = owned
        thing.made_at = site() if owned else ""
        self._next += _STEP
        self._live[thing.handle] = thing
        return thing

    def get(self, handle: int, kind: type[ObjectT]) -> ObjectT | None:
        """The live object of this kind, if the handle is one."""
        thing = self._live.get(handle)
        return thing if isinstance(thing, kind) else None

    def remove(self, thing: Handled) -> None:
        """The object is released."""
        del self._live[thing.handle]
        self._dead[thing.handle] = thing.what
        if len(self._dead) > _DEAD_KEPT:
            self._dead.popitem(last=False)

    def describe(self, handle: int) -> str:
        """What a handle that is not of the expected kind is, for a message."""
        if handle in self._dead:
            return f"{handle:#x}, which was {self._dead[handle]} and is released already"
        thing = self._live.get(handle)
        return f"{handle:#x}, which is {thing.what}" if thing else f"{handle:#x}, which this library never gave out"

    def live(self) -> list[Handled]:
        """All live objects."""
        return list(self._live.values())

    def to_json(self) -> list[dict[str, Any]]:
        """A line per live object that the user must release."""
        return [
            {"what": thing.what, "release": thing.call, "site": thing.made_at, "handle": thing.handle}
            for thing in self._live.values()
            if thing.owned and not thing.excused
        ]
