"""Ports are kept for the edge: shared by its processes, refused to and from everybody else."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import ExitStack

import pytest

from voxrepo.edge.listening import CannotListen, check_port
from voxrepo.supervisor.ports import KeptPorts, free_port

HOST = "127.0.0.1"


def listener(port: int, *options: int) -> socket.socket:
    """A listening socket; closed again if that fails."""
    with ExitStack() as undo:
        opened = undo.enter_context(socket.socket())
        for option in options:
            opened.setsockopt(socket.SOL_SOCKET, option, 1)
        opened.bind((HOST, port))
        opened.listen()
        undo.pop_all()
    return opened


def test_port_0_takes_free_ones_that_differ() -> None:
    kept = KeptPorts(HOST, {"--http-port": 0, "--grpc-port": 0, "--metrics-port": 0})
    assert len(set(kept.numbers)) == 3
    assert 0 not in kept.numbers
    kept.close()


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,)])
def test_a_port_that_somebody_listens_on_is_refused_even_if_he_would_share_it(options: tuple[int, ...]) -> None:
    with (
        listener(0, *options) as foreign,
        pytest.raises(CannotListen, match=rf"port {foreign.getsockname()[1]}: .*in use.*--grpc-port"),
    ):
        KeptPorts(HOST, {"--http-port": 0, "--grpc-port": foreign.getsockname()[1]})


def test_what_was_kept_before_a_refusal_is_given_back() -> None:
    first = free_port()
    with listener(0) as foreign, pytest.raises(CannotListen):
        KeptPorts(HOST, {"--http-port": first, "--grpc-port": foreign.getsockname()[1]})
    listener(first).close()


def test_one_number_for_two_doors_is_refused() -> None:
    port = free_port()
    with pytest.raises(CannotListen, match="--grpc-port"):
        KeptPorts(HOST, {"--http-port": port, "--grpc-port": port})


def test_two_servers_cannot_keep_one_port() -> None:
    kept = KeptPorts(HOST, {"--http-port": 0})
    with pytest.raises(CannotListen):
        KeptPorts(HOST, {"--http-port": kept.numbers[0]})
    with pytest.raises(CannotListen):
        check_port(HOST, kept.numbers[0], "--http-port")
    kept.close()
    KeptPorts(HOST, {"--http-port": kept.numbers[0]}).close()


def test_those_who_do_not_share_are_kept_out_while_nobody_listens() -> None:
    kept = KeptPorts(HOST, {"--http-port": 0})
    for options in ((), (socket.SO_REUSEADDR,)):
        with pytest.raises(OSError, match="in use"):
            listener(kept.numbers[0], *options)
    kept.close()


def test_connections_reach_every_listener_and_never_the_keeper() -> None:
    kept = KeptPorts(HOST, {"--http-port": 0})
    reached: Counter[int] = Counter()
    with ExitStack() as opened:
        listeners = [opened.enter_context(listener(kept.numbers[0], socket.SO_REUSEPORT)) for _ in range(2)]
        for each in listeners:
            each.settimeout(0)
        for _ in range(100):
            with socket.create_connection((HOST, kept.numbers[0]), timeout=5):
                for number, each in enumerate(listeners):
                    try:
                        each.accept()[0].close()
                    except BlockingIOError:
                        continue
                    reached[number] += 1
    kept.close()
    assert sum(reached.values()) == 100
    assert min(reached[0], reached[1]) > 10


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_this_machines_is_named(host: str) -> None:
    with pytest.raises(CannotListen, match=r"--host"):
        KeptPorts(host, {"--http-port": 0})


def test_every_address_of_a_name_is_kept() -> None:
    kept = KeptPorts("localhost", {"--http-port": 0})
    with pytest.raises(OSError, match="in use"):
        listener(kept.numbers[0])
    kept.close()
