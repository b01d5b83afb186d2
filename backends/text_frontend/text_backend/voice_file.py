"""Files of a stage version that users write: read whole, within a limit, with errors that say where."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from voxrepo_contract.errors import ConfigError


def read_limited(file: Path, max_bytes: int) -> bytes:
    """The content of a file.

    Raises:
        ConfigError: it cannot be read or is larger than ``max_bytes``.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    if len(raw) > max_bytes:
        raise ConfigError(f"{len(raw)} bytes; the limit is {max_bytes}", file=file)
    return raw


def content_lines(file: Path, max_bytes: int) -> Iterator[tuple[int, str]]:
    """Numbers, from 1, and texts of the lines that are neither blank nor begin with ``# ``; a BOM and CRs are dropped.

    Raises:
        ConfigError: it cannot be read, is too large, or is not UTF-8.
    """
    raw = read_limited(file, max_bytes)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError("not valid UTF-8; save the file as UTF-8", file=file, line=line) from error
    # only line feeds count: other line separators may be part of a word
    for number, raw_line in enumerate(text.split("\n"), 1):
        content = raw_line.rstrip("\r")
        if "\r" in content:
            # of an old Macintosh: the whole file would be one line, and lost if that is a comment
            raise ConfigError(
                "holds a carriage return inside a line; end lines with LF or CR LF", file=file, line=number
            )
        if content.strip() and not content.startswith("# "):
            yield number, content
