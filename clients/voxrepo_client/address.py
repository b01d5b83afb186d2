"""Addresses of a server: which transport, which host, which port."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from voxrepo_client.errors import InvalidRequest

DEFAULT_URL = "grpc://localhost:8001"
URL_VARIABLE = "VOXREPO_URL"

_SCHEMES: dict[str, tuple[Literal["grpc", "http"], bool, int]] = {
    "grpc": ("grpc", False, 8001),
    "grpcs": ("grpc", True, 443),
    "http": ("http", False, 80),
    "https": ("http", True, 443),
}


@dataclass(frozen=True)
class Address:
    """Where a server listens.

    Attributes:
        transport: ``grpc`` or ``http``.
        host: name or IP address, IPv6 without brackets.
        port: TCP port.
        tls: whether the connection is encrypted.
        path: prefix in front of ``/v2`` behind a reverse proxy, without a slash at its end; HTTP only.
    """

    transport: Literal["grpc", "http"]
    host: str
    port: int
    tls: bool = False
    path: str = ""

    @property
    def target(self) -> str:
        """``host:port`` as gRPC takes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether this is a server of the same machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        """The URL."""
        return f"{self.transport}{'s' if self.tls else ''}://{self.target}{self.path}"


def parse_address(url: str | None = None) -> Address:
    """Parse ``url``; without one, the environment variable ``VOXREPO_URL``, then ``grpc://localhost:8001``.

    ``grpc://host:port``, ``grpcs://``, ``http://`` and ``https://`` select the transport; a bare ``host:port`` is
    gRPC. Without a port, gRPC uses 8001 and the others their usual ports (80, 443).

    Raises:
        InvalidRequest: the URL cannot be understood.
    """
    given = url if url is not None else os.environ.get(URL_VARIABLE) or DEFAULT_URL
    where = f"the URL {given!r}"
    text = given.strip()
    try:
        parts = urlsplit(text if "://" in text else f"grpc://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidRequest(f"{where} cannot be understood: {error}") from error
    if parts.scheme not in _SCHEMES:
        raise InvalidRequest(f"{where} starts with {parts.scheme}://; use grpc, grpcs, http or https")
    if not host or any(c.isspace() for c in text):
        raise InvalidRequest(f"{where} names no host; write for example {DEFAULT_URL}")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidRequest(f"{where} may hold only scheme, host, port and path; send keys with headers=")
    transport, tls, default_port = _SCHEMES[parts.scheme]
    path = parts.path.rstrip("/")
    if transport == "grpc" and path:
        raise InvalidRequest(f"{where} has a path, which gRPC does not have; leave it out or use http://")
    return Address(transport, host, port if port is not None else default_port, tls, path)
