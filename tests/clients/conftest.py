"""Fixtures of the client tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.protocol_server import ProtocolServer


@pytest.fixture(scope="session")
def _protocol_server() -> Iterator[ProtocolServer]:
    server = ProtocolServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def peer(_protocol_server: ProtocolServer) -> ProtocolServer:
    """A running protocol server in its initial state."""
    _protocol_server.reset()
    return _protocol_server


@pytest.fixture(params=["grpc", "http"])
def url(request: pytest.FixtureRequest, peer: ProtocolServer) -> str:
    """Address of the protocol server, once per transport."""
    return peer.grpc_url if request.param == "grpc" else peer.http_url
