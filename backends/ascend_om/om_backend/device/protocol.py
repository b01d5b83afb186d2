"""How the Triton stub and its device worker talk. Standard library only: the two may run under different Pythons.

Transport: one end each of an ``AF_UNIX`` stream socket pair, which the worker inherits. A message is

    4 bytes  ``VXW1``
    4 bytes  length of the header, unsigned little-endian, at most 8 MiB
    header   a JSON object, UTF-8
    and, with the first byte, up to 16 file descriptors (``SCM_RIGHTS``): the memory named in ``segments``

Tensors never travel in the header: they lie in sealed shared memory (see :mod:`om_backend.device.memory`), each named
as ``[segment, offset, bytes, dtype, dims]``. Nothing is ever pickled.

The worker speaks first, ``{"hello": 1, "python": "3.11.7", "pid": 42, ...}`` with its protocol version; afterwards the
stub asks and the worker answers, one at a time:

    ask     ``{"id": n, "op": ..., ...}``
    answer  ``{"id": n, "ok": true, ...}`` or ``{"id": n, "fault": {call, code, code_name, text, action, advice}}``

| op | asks with | is answered with |
|---|---|---|
| ``open`` | ``runtime``, ``entry``, ``mode``, ``device_id``, ``options`` | ``library`` |
| ``load`` | ``graph`` (number chosen by the stub), ``file``, ``options`` | ``description`` |
| ``run`` | ``graph``, ``tensors``, ``segments``, ``drop`` | ``tensors``, ``segments``, ``drop``, ``run_us`` |
| ``memory`` | | ``free_bytes``, ``total_bytes`` |
| ``unload`` | ``graph`` | |
| ``trim`` | ``drop`` | ``drop`` |
| ``ping`` | | |
| ``close`` | | (then the worker ends) |

Either side ends the conversation on anything else: a stream that is out of step cannot be mended.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

PROTOCOL_VERSION = 1
MAGIC = b"VXW1"
MAX_HEADER_BYTES = 8 << 20
MAX_FDS = 16

_PREFIX = struct.Struct("<4sI")
_FD_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_FDS * _FD_BYTES)


class ProtocolError(Exception):
    """What came is not a message; the conversation is over."""


class PeerGone(ProtocolError):
    """The other side closed its end or died."""


class PeerSilent(ProtocolError):
    """The other side did not answer within the time limit."""


def send(
    sock: socket.socket, header: Mapping[str, Any], fds: Sequence[int] = (), timeout_s: float | None = None
) -> None:
    """Send one message.

    Raises:
        ProtocolError: the header or the number of descriptors is beyond the limits.
        PeerGone: the other side is gone.
        PeerSilent: the other side did not take the message within ``timeout_s``.
    """
    body = json.dumps(header, separators=(",", ":")).encode("ascii")
    if len(body) > MAX_HEADER_BYTES:
        raise ProtocolError(f"a header of {len(body)} bytes is beyond the limit of {MAX_HEADER_BYTES}")
    if len(fds) > MAX_FDS:
        raise ProtocolError(f"{len(fds)} descriptors are beyond the limit of {MAX_FDS}")
    message = _PREFIX.pack(MAGIC, len(body)) + body
    end = _end(timeout_s)
    try:
        sock.settimeout(_left(end))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = sock.sendmsg([message], rights)
        while sent < len(message):
            sock.settimeout(_left(end))
            sent += sock.send(message[sent:])
    except TimeoutError:
        raise PeerSilent(f"the other side took no message for {timeout_s:g} s") from None
    except OSError as error:
        raise PeerGone(f"the other side is gone: {error.strerror}") from error


def receive(sock: socket.socket, timeout_s: float | None = None) -> tuple[dict[str, Any], list[int]]:
    """Receive one message.

    Returns:
        The header, and the descriptors that came with it, which the caller must close.

    Raises:
        ProtocolError: what came is not a message.
        PeerGone: the other side is gone.
        PeerSilent: nothing, or not all of it, came within ``timeout_s``.
    """
    fds: list[int] = []
    try:
        end = _end(timeout_s)
        received = bytearray()
        _receive_until(sock, _PREFIX.size, end, received, fds)
        magic, size = _PREFIX.unpack_from(received)
        if magic != MAGIC:
            raise ProtocolError(f"a message begins with {MAGIC!r}, got {magic!r}")
        if size > MAX_HEADER_BYTES:
            raise ProtocolError(f"a header of {size} bytes is beyond the limit of {MAX_HEADER_BYTES}")
        _receive_until(sock, _PREFIX.size + size, end, received, fds)
        if len(received) > _PREFIX.size + size:
            raise ProtocolError("something follows the message; the two sides take turns")
        body = received[_PREFIX.size :]
        try:
            header = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise ProtocolError(f"a header must be a JSON object, got {type(header).__name__}")
    except TimeoutError:
        close_all(fds)
        raise PeerSilent(f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        close_all(fds)
        raise PeerGone(f"the other side is gone: {error.strerror}") from error
    except ProtocolError:
        close_all(fds)
        raise
    return header, fds


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)


def _receive_until(sock: socket.socket, count: int, end: float | None, received: bytearray, fds: list[int]) -> None:
    while len(received) < count:
        sock.settimeout(_left(end))
        # a whole message at once, as a rule: nothing can follow it before it is answered
        data, ancillary, flags, _ = sock.recvmsg(
            max(count - len(received), 1 << 16), _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(payload[: len(payload) - len(payload) % _FD_BYTES])
                fds.extend(numbers)
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("descriptors were lost on the way: the limit of open files is reached")
        if not data:
            raise PeerGone("the other side closed the connection")
        received += data


def _end(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _left(end: float | None) -> float | None:
    # 0 would mean "do not block at all" and raise another error than a timeout
    return None if end is None else max(end - time.monotonic(), 1e-3)
