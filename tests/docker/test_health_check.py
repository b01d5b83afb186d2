"""The health check of the image, run against servers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.docker.files import final, health_command, seconds
from tests.harness import RunningServer


def check(port: int) -> int:
    """Exit code of the image's health check for a server on ``port``."""
    program, *arguments = health_command()
    assert program == "python"
    timeout_s = seconds(final("HEALTHCHECK").flag("timeout") or "")
    # a proxy that is set for the container must not be asked
    environment = {"VOXREPO_HTTP_PORT": str(port), "http_proxy": "http://127.0.0.1:9", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, stderr=subprocess.DEVNULL, timeout=timeout_s, check=False
    ).returncode


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Port of a server that answers this status for /v2/health/ready and 404 for the rest."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/v2/health/ready" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_is_healthy_when_the_server_says_that_it_is_ready() -> None:
    with answering(200) as port:
        assert check(port) == 0


@pytest.mark.parametrize("status", [404, 500, 503])
def test_is_unhealthy_when_the_server_says_anything_else(status: int) -> None:
    with answering(status) as port:
        assert check(port) == 1


def test_is_unhealthy_when_nothing_listens() -> None:
    with answering(200) as port:
        pass
    assert check(port) == 1


@pytest.mark.e2e
def test_is_healthy_for_a_real_server(server: RunningServer) -> None:
    assert check(int(server.http_url.rsplit(":", 1)[1])) == 0
