"""A port that is given up has neither listener nor connections."""

from __future__ import annotations

import os
import socket

import pytest

from voxrepo.edge.listening import give_up_port


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_that_is_given_up_refuses_newcomers_and_ends_connections_after_what_was_written(
    family: socket.AddressFamily, host: str
) -> None:
    with socket.socket(family) as listener, socket.socket(family) as other:
        for each in (listener, other):
            try:
                each.bind((host, 0))
            except OSError:
                pytest.skip(f"this machine has no {host}")
            each.listen()
        address = listener.getsockname()[:2]
        client = socket.create_connection(address, timeout=5)
        accepted, _ = listener.accept()
        waiting = socket.create_connection(address, timeout=5)  # in the listener's line
        accepted.sendall(b"the answer")
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        give_up_port(address[1])
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        assert client.recv(100) == b"the answer"
        assert client.recv(100) == b""
        with pytest.raises(ConnectionResetError):
            waiting.recv(100)
        socket.create_connection(other.getsockname()[:2], timeout=5).close()  # another port is left alone
        for each in (client, accepted, waiting):
            each.close()


def test_a_port_of_nobody_is_given_up_without_ado() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    give_up_port(port)
