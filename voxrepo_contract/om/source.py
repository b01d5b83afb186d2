"""Bounded random access to a file or to bytes in memory, and the one way in which a damaged file is refused."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn

from voxrepo_contract.errors import ConfigError

MAX_READ_BYTES = 16 << 20
"""Largest piece read at once. The shapes of a model are a few kB, its list of attribute names a few MB."""

MAX_STEPS = 2_000_000
"""Items (fields, tensors, table entries) looked at in one file: far more than a model has, a few seconds of work."""


class Source:
    """A file of known size. Reading outside of it is a :class:`ConfigError`, not a short read.

    Attributes:
        name: shown in errors.
        size_bytes: size of the file when it was opened.
    """

    def __init__(self, stream: BinaryIO, name: str, size_bytes: int) -> None:
        self._stream = stream
        self._steps = 0
        self.name = name
        self.size_bytes = size_bytes

    @classmethod
    def open(cls, source: bytes | str | Path, name: str | None = None) -> Source:
        """Open a path, or wrap bytes.

        Raises:
            ConfigError: the path does not lead to a file that can be read.
        """
        if isinstance(source, bytes):
            return cls(io.BytesIO(source), name or "<bytes>", len(source))
        path = Path(source)
        try:
            if path.is_dir():
                raise ConfigError("is a folder, not a model file; name the file in it", file=path)
            if path.exists() and not path.is_file():
                # a pipe would keep its reader waiting for ever
                raise ConfigError("is a pipe or a device, not a model file", file=path)
            stream = path.open("rb")
            size_bytes = stream.seek(0, io.SEEK_END)
        except FileNotFoundError as error:
            raise ConfigError("the file is missing", file=path) from error
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", file=path) from error
        return cls(stream, name or str(path), size_bytes)

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def refuse(self, reason: str, offset: int | None = None) -> NoReturn:
        """Raise the :class:`ConfigError` for this file; ``offset`` is the byte at which it went wrong."""
        raise ConfigError(reason if offset is None else f"{reason} (at byte {offset})", file=self.name)

    def step(self, offset: int, count: int = 1) -> None:
        """Count ``count`` items of work, so that a file made of nothing but tiny items cannot keep a reader busy."""
        self._steps += count
        if self._steps > MAX_STEPS:
            self.refuse(f"holds more than {MAX_STEPS} items; it is damaged or no model", offset)

    def read(self, offset: int, count: int, what: str) -> bytes:
        """Just ``count`` bytes from ``offset``.

        Raises:
            ConfigError: they are not all inside the file, or more than is ever needed at once.
        """
        if offset < 0 or count < 0 or offset + count > self.size_bytes:
            self.refuse(
                f"{what} needs {count} bytes, the file ends at byte {self.size_bytes}; it is damaged", max(offset, 0)
            )
        if count > MAX_READ_BYTES:
            self.refuse(f"{what} is {count} bytes, more than the {MAX_READ_BYTES} that make sense; damaged", offset)
        try:
            self._stream.seek(offset)
            data = self._stream.read(count)
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or error}", file=self.name) from error
        if len(data) != count:
            self.refuse(f"{what}: the file became shorter while it was read", offset)
        return data

    def head(self, count: int) -> bytes:
        """The first ``count`` bytes, fewer if the file is shorter."""
        return self.read(0, min(count, self.size_bytes), "the beginning")


class Cursor:
    """Walks through a region of a :class:`Source` whose layout is fixed fields and counted lists, little-endian.

    Args:
        source: the file.
        start: first byte of the region.
        size_bytes: of the region; at most ``MAX_READ_BYTES``.
        what: the region's name in errors.
    """

    def __init__(self, source: Source, start: int, size_bytes: int, what: str) -> None:
        self._source = source
        self._data = source.read(start, size_bytes, what)
        self._start = start
        self._at = 0
        self._what = what

    @property
    def offset(self) -> int:
        """Position in the file."""
        return self._start + self._at

    @property
    def left(self) -> int:
        """Bytes left in the region."""
        return len(self._data) - self._at

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the file at this position."""
        self._source.refuse(f"{self._what}: {reason}", self.offset)

    def take(self, count: int, what: str) -> bytes:
        """The next ``count`` bytes."""
        if count > self.left:
            self.refuse(f"{what} needs {count} bytes, {self.left} are left; the file is damaged")
        self._at += count
        return self._data[self._at - count : self._at]

    def u32(self, what: str) -> int:
        """The next 4 bytes as an unsigned number."""
        return int.from_bytes(self.take(4, what), "little")

    def i32(self, what: str) -> int:
        """The next 4 bytes as a signed number."""
        return int.from_bytes(self.take(4, what), "little", signed=True)

    def u64(self, what: str) -> int:
        """The next 8 bytes as an unsigned number."""
        return int.from_bytes(self.take(8, what), "little")

    def i64s(self, count: int, what: str) -> tuple[int, ...]:
        """``count`` signed numbers of 8 bytes."""
        return struct.unpack(f"<{count}q", self.take(8 * count, what))

    def count(self, item_bytes: int, what: str) -> int:
        """A count in 4 bytes, which must leave room for that many items of at least ``item_bytes`` each."""
        count = self.u32(what)
        if count * item_bytes > self.left:
            self.refuse(f"{what} is {count}, but only {self.left} bytes follow; the file is damaged")
        self._source.step(self.offset, count)
        return count


def printable(raw: bytes) -> str:
    """Bytes as text that can be shown: what is not UTF-8 or not printable becomes a replacement character."""
    text = raw.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
