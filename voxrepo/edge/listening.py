"""Ports: bound or refused in one sentence, and given up."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from voxrepo_contract.errors import VoxrepoError

Address = tuple[socket.AddressFamily, tuple[Any, ...]]
"""Family and socket address."""


class CannotListen(VoxrepoError):
    """A port cannot be bound."""


def check_port(host: str, port: int, flag: str) -> None:
    """Try to bind a port and let it go again.

    gRPC reports no reason when it cannot bind, and writes to standard error; hence the reason is found beforehand.

    Args:
        host: address or name.
        port: port; 0 is not tried.
        flag: option that sets the port, for the message.

    Raises:
        CannotListen: with address, port, reason and flag.
    """
    family, address = addresses_of(host, port)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            if port:
                probe.listen(1)
        except OSError as error:
            raise cannot_listen(host, port, flag, error) from error


def addresses_of(host: str, port: int) -> list[Address]:
    """Socket addresses of a host name or address, each once.

    Raises:
        CannotListen: there is no such host.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise CannotListen(f"cannot listen on {host!r}: {error.strerror}; choose another --host") from error
    return list(dict.fromkeys((family, tuple(address)) for family, _, _, _, address in found))


def cannot_listen(host: str, port: int, flag: str, error: OSError) -> CannotListen:
    """The error for a failed bind."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno == errno.EADDRNOTAVAIL:
        return CannotListen(f"cannot listen on {host}: {reason}; choose an address of this machine with --host")
    return CannotListen(f"cannot listen on {host} port {port}: {reason}; free it or choose another with {flag}")


def give_up_port(port: int) -> None:
    """Refuse new connections to a TCP port of this process and end those that it has.

    What was written before still arrives. For servers whose own way to stop answers calls that come at that moment
    with something else than the end of the connection.

    Args:
        port: its number.
    """
    ours = list(_sockets_of(port))
    # whoever listens first, so that none comes after the others were listed
    for each in ours:
        if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            _end(each)
    for each in (*ours, *_sockets_of(port)):
        _end(each)
        each.close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def _sockets_of(port: int) -> Iterator[socket.socket]:
    """Copies of this process's TCP sockets whose own port is ``port``; they are the caller's to close."""
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as it is now: copies add to it
        try:
            copy = os.dup(int(number))
        except OSError:  # closed meanwhile
            continue
        if not stat.S_ISSOCK(os.fstat(copy).st_mode):
            os.close(copy)
            continue
        found = socket.socket(fileno=copy)
        with suppress(OSError):
            is_tcp = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
            if is_tcp and found.getsockname()[1] == port:
                yield found
                continue
        found.close()
