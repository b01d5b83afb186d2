"""Shared memory between stub and worker: anonymous, sealed, handed over by descriptor. Standard library only.

Each side owns the memory that it writes: an :class:`Area` of segments (``memfd``). A segment is sealed against
shrinking before its descriptor is sent, so that a reader can never be killed by a page that went away; it has no name
that a third process could open, does not count against ``/dev/shm``, and ends with the two processes.

A message begins with :meth:`Area.begin`, takes room with :meth:`Area.reserve`, and is announced by
:meth:`Area.announce`; the reader follows the announcement with :meth:`Window.follow`. Usually there is one segment of
each area and nothing to announce. What a message says is overwritten by the next one.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from om_backend.device.protocol import ProtocolError, close_all

ALIGNMENT = 64
"""Bytes: the alignment that the device's copy engine and wide vector loads like."""

SMALLEST_BYTES = 1 << 16
_TRIM_ABOVE_BYTES = 16 << 20
_TRIM_AFTER = 256
"""A segment larger than 16 MiB of which 256 messages in a row used less than a quarter is replaced by a smaller one."""

_MFD_CLOEXEC = 1
_MFD_ALLOW_SEALING = 2
_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
_F_SEAL_SEAL = 1
_F_SEAL_SHRINK = 2
_F_SEAL_GROW = 4
_SEALS = _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW


class TooLarge(Exception):
    """A message needs more memory than the limit."""

    def __init__(self, needed_bytes: int, limit_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.limit_bytes = limit_bytes
        super().__init__(f"the tensors of one call take {needed_bytes} bytes; the limit is {limit_bytes}")


def create_memfd(name: str) -> int:
    """An anonymous, sealable memory file.

    Raises:
        OSError: the kernel refuses.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, _MFD_CLOEXEC | _MFD_ALLOW_SEALING)
    # a Python built against an old C library lacks the function, the C library it runs on need not
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.memfd_create(name.encode("ascii"), _MFD_CLOEXEC | _MFD_ALLOW_SEALING)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def _rounded(count: int) -> int:
    size = SMALLEST_BYTES
    while size < count:
        size *= 2
    return size


@dataclass
class _Segment:
    number: int
    size: int
    map: mmap.mmap
    used: int = 0


@dataclass(frozen=True)
class Room:
    """A place in shared memory.

    Attributes:
        segment: number of the segment.
        offset: first byte in it, a multiple of 64.
        size: bytes.
        buffer: the whole segment's memory.
    """

    segment: int
    offset: int
    size: int
    buffer: mmap.mmap


@dataclass(frozen=True)
class Announcement:
    """What must travel with a message so that the reader finds its tensors.

    Attributes:
        segments: ``[number, bytes]`` of each new segment, in the order of ``fds``.
        drop: numbers of segments that are no more.
        fds: to be sent, then closed.
    """

    segments: list[list[int]] = field(default_factory=list)
    drop: list[int] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)


class Area:
    """The segments that one side writes.

    Args:
        name: seen in ``/proc`` only.
        limit_bytes: most that one message may take.
    """

    def __init__(self, name: str, limit_bytes: int) -> None:
        self._name = name
        self._limit_bytes = limit_bytes
        self._segments: list[_Segment] = []
        self._next_number = 0
        self._news = Announcement()
        self._peak_bytes = 0
        self._messages = 0

    def begin(self, expected_bytes: int = 0) -> None:
        """Start a message; what the last one held may be overwritten from now on.

        Args:
            expected_bytes: of all tensors, each rounded up to 64, if that is known; saves a second segment.

        Raises:
            TooLarge: more than the limit.
        """
        if expected_bytes > self._limit_bytes:
            raise TooLarge(expected_bytes, self._limit_bytes)
        used = sum(segment.used for segment in self._segments)
        self._peak_bytes = max(self._peak_bytes, used, expected_bytes)
        self._messages += 1
        wanted = max(expected_bytes, used)
        scattered = len(self._segments) > 1
        short = bool(self._segments) and self._segments[0].size < expected_bytes
        if scattered or short:
            self._replace(wanted)
        elif self._messages >= _TRIM_AFTER:
            size = self._segments[0].size if self._segments else 0
            if size > _TRIM_ABOVE_BYTES and self._peak_bytes * 4 < size:
                self._replace(self._peak_bytes)
            self._messages = 0
            self._peak_bytes = 0
        elif not self._segments and expected_bytes:
            self._add(expected_bytes)
        for segment in self._segments:
            segment.used = 0

    def reserve(self, size: int) -> Room:
        """Room for one tensor.

        Raises:
            TooLarge: the message would pass the limit.
            OSError: the kernel has no memory left.
        """
        used = sum(segment.used for segment in self._segments)
        needed = -(-size // ALIGNMENT) * ALIGNMENT
        if used + needed > self._limit_bytes:
            raise TooLarge(used + needed, self._limit_bytes)
        if not self._segments or self._segments[-1].size - self._segments[-1].used < needed:
            # what was handed out stays where it is: the caller may be writing there
            self._add(max(needed, used))
        segment = self._segments[-1]
        offset = segment.used
        segment.used += needed
        return Room(segment.number, offset, size, segment.map)

    def announce(self) -> Announcement:
        """What changed since the last announcement; its descriptors are the caller's to close."""
        news, self._news = self._news, Announcement()
        return news

    def trim(self) -> None:
        """Give all memory back; the next message takes new."""
        self._drop_all()
        self._peak_bytes = 0
        self._messages = 0

    def close(self) -> None:
        """Forget everything, also what was not announced."""
        self._drop_all()
        self._news = Announcement()

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(segment.size for segment in self._segments)

    def _replace(self, count: int) -> None:
        self._drop_all()
        self._add(count)

    def _drop_all(self) -> None:
        # the mapping ends when the last array over it is gone, never under a reader
        unannounced = {number: index for index, (number, _) in enumerate(self._news.segments)}
        for segment in self._segments:
            if segment.number in unannounced:
                close_all([self._news.fds[unannounced[segment.number]]])
            else:
                self._news.drop.append(segment.number)
        # all that was not announced yet was among the segments
        self._news = Announcement(drop=self._news.drop)
        self._segments.clear()

    def _add(self, count: int) -> None:
        size = _rounded(count)
        fd = create_memfd(self._name)
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
            memory = mmap.mmap(fd, size)
        except BaseException:
            os.close(fd)
            raise
        number = self._next_number
        self._next_number += 1
        self._segments.append(_Segment(number, size, memory))
        self._news.segments.append([number, size])
        self._news.fds.append(fd)


class Window:
    """The other side's area, read only.

    Args:
        limit_bytes: most that a segment may have.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = _rounded(limit_bytes)
        self._maps: dict[int, mmap.mmap] = {}

    def follow(self, segments: Sequence[Sequence[int]], drop: Sequence[int], fds: Sequence[int]) -> None:
        """Map what is new and let go of what is no more. Closes ``fds``.

        Raises:
            ProtocolError: the announcement does not fit the descriptors, or a segment is not sealed or too large.
        """
        try:
            if len(segments) != len(fds):
                raise ProtocolError(f"{len(segments)} segments were announced, {len(fds)} descriptors came")
            for (number, size), fd in zip(segments, fds, strict=True):
                self._maps[number] = self._map(size, fd)
            for number in drop:
                self._maps.pop(number, None)
        finally:
            close_all(fds)

    def buffer(self, segment: int, offset: int, size: int) -> mmap.mmap:
        """The memory of a segment, after checking that ``size`` bytes at ``offset`` lie in it.

        Raises:
            ProtocolError: they do not, or there is no such segment.
        """
        memory = self._maps.get(segment)
        if memory is None or offset < 0 or size < 0 or offset + size > len(memory):
            raise ProtocolError(f"{size} bytes at {offset} of segment {segment} are not shared memory")
        return memory

    def close(self) -> None:
        """Let go of everything."""
        self._maps.clear()

    def _map(self, size: int, fd: int) -> mmap.mmap:
        try:
            seals = fcntl.fcntl(fd, _F_GET_SEALS)
        except OSError:
            seals = 0
        if seals & _F_SEAL_SHRINK == 0:
            raise ProtocolError("a segment is not sealed against shrinking")
        if not 0 < size <= self._limit_bytes or os.fstat(fd).st_size != size:
            raise ProtocolError(f"a segment of {size} bytes is not what came, or beyond {self._limit_bytes}")
        return mmap.mmap(fd, size, prot=mmap.PROT_READ)
