"""Ports of this machine: free ones, and those that are kept for the edge."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from voxrepo.edge.listening import Address, CannotListen, addresses_of, cannot_listen

_ATTEMPTS = 20
"""To find a port that is free on every address of a host name."""


def is_free(port: int) -> bool:
    """Whether nothing listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class KeptPorts:
    """Ports that the edge's processes may listen on together, and nobody else.

    Each is bound alone, which the kernel refuses if anybody listens on it, and only then opened to other sockets of
    this user with ``SO_REUSEPORT``. The sockets are held but never listen, so the kernel gives them no connection; a
    port stays kept while a process of the edge is started again.

    Args:
        host: address or name to listen on.
        wanted: port by the option that sets it, for messages; 0 takes any free one.

    Attributes:
        numbers: the ports, in the same order.

    Raises:
        CannotListen: a port is taken or not allowed; says which option to change.
    """

    def __init__(self, host: str, wanted: Mapping[str, int]) -> None:
        self._sockets: list[socket.socket] = []
        self.numbers: list[int] = []
        try:
            for flag, port in wanted.items():
                self.numbers.append(self._keep(host, port, flag))
        except CannotListen:
            self.close()
            raise

    def _keep(self, host: str, port: int, flag: str) -> int:
        addresses = addresses_of(host, port)
        for _ in range(_ATTEMPTS if port == 0 else 1):
            try:
                held, number = _bind_all(addresses, port)
            except OSError as error:
                failure = error
            else:
                self._sockets += held
                return number
        raise cannot_listen(host, port, flag, failure) from failure

    def close(self) -> None:
        """Give the ports up."""
        for kept in self._sockets:
            kept.close()


def _bind_all(addresses: Sequence[Address], port: int) -> tuple[list[socket.socket], int]:
    """Bind one port on all addresses of a host; those that this machine does not have are left out if others do."""
    held: list[socket.socket] = []
    missing: OSError | None = None
    with contextlib.ExitStack() as undo:
        for family, address in addresses:
            try:
                kept = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
                port = _bind_alone(kept, address, port)
            except OSError as error:
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                missing = error
            else:
                held.append(kept)
        if missing is not None and not held:
            raise missing
        undo.pop_all()
    return held, port


def _bind_alone(kept: socket.socket, address: tuple[Any, ...], port: int) -> int:
    # ports of connections that have just ended are no reason to refuse; listeners are refused all the same
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if kept.family == socket.AF_INET6:
        kept.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    kept.bind((address[0], port, *address[2:]))
    # from here on nobody else may bind it so lightly, but the edge may
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return int(kept.getsockname()[1])
