"""What the two transports offer to the rest of the library, once blocking and once for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from voxrepo_client.address import Address
from voxrepo_client.errors import ClientClosed, InvalidRequest
from voxrepo_client.protocol import InferAnswer, InferCall

CONNECT_TIMEOUT_S = 10.0
"""How long a connection may take to be made, where the caller's own limit is not shorter."""


class AnswerStream(Protocol):
    """The answers to one request, for blocking code; read by one thread."""

    def read(self) -> InferAnswer | None:
        """Wait for the next answer; ``None`` after the last. The first call sends the request."""

    def cancel(self) -> None:
        """End the request at the server without waiting; harmless after its end, from any thread."""


class AsyncAnswerStream(Protocol):
    """The same for asyncio; read by one task."""

    async def read(self) -> InferAnswer | None:
        """Wait for the next answer; ``None`` after the last. The first call sends the request."""

    def cancel(self) -> None:
        """End the request at the server without waiting; harmless after its end."""


class Transport(Protocol):
    """A blocking connection to one server; may be used by several threads at once."""

    def infer(self, call: InferCall, timeout_s: float | None) -> InferAnswer:
        """Send one request and wait for its answer."""

    def stream(self, call: InferCall, timeout_s: float | None) -> AnswerStream:
        """One request that is answered in pieces; any number of them may be open at once."""

    def index(self, timeout_s: float | None) -> list[dict[str, Any]]:
        """The repository index: ``name``, ``version``, ``state``, ``reason`` per model version."""

    def metadata(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Metadata of a model in its JSON form."""

    def config(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Configuration of a model in the JSON form of its protobuf."""

    def close(self) -> None:
        """Free the connection; closing twice is harmless."""


class AsyncTransport(Protocol):
    """The same for asyncio; belongs to the event loop that uses it first."""

    async def infer(self, call: InferCall, timeout_s: float | None) -> InferAnswer:
        """Send one request and wait for its answer."""

    def stream(self, call: InferCall, timeout_s: float | None) -> AsyncAnswerStream:
        """One request that is answered in pieces; any number of them may be open at once."""

    async def index(self, timeout_s: float | None) -> list[dict[str, Any]]:
        """The repository index: ``name``, ``version``, ``state``, ``reason`` per model version."""

    async def metadata(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Metadata of a model in its JSON form."""

    async def config(self, model: str, timeout_s: float | None) -> dict[str, Any]:
        """Configuration of a model in the JSON form of its protobuf."""

    async def close(self) -> None:
        """Free the connection; closing twice is harmless."""


def check_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Request headers, names in lower case as gRPC wants them.

    Raises:
        InvalidRequest: a name or value cannot be sent as a header.
    """
    checked: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise InvalidRequest(f"{name!r} cannot be the name of a header")
        if not value.isascii() or not value.isprintable():
            raise InvalidRequest(f"the value of the header {name!r} must be printable ASCII")
        checked[name.lower()] = value
    return checked


def closed_error(address: Address) -> ClientClosed:
    """The error for a call after ``close()``."""
    return ClientClosed(f"the client of {address} is closed; make a new one")


def open_transport(address: Address, headers: Mapping[str, str]) -> Transport:
    """A blocking transport for ``address``; connects with the first call."""
    if address.transport == "grpc":
        from voxrepo_client.transport_grpc import GrpcTransport

        return GrpcTransport(address, headers)
    from voxrepo_client.transport_http import HttpTransport

    return HttpTransport(address, headers)


def open_async_transport(address: Address, headers: Mapping[str, str]) -> AsyncTransport:
    """An asyncio transport for ``address``; connects with the first call."""
    if address.transport == "grpc":
        from voxrepo_client.transport_grpc import AsyncGrpcTransport

        return AsyncGrpcTransport(address, headers)
    from voxrepo_client.transport_http import AsyncHttpTransport

    return AsyncHttpTransport(address, headers)
