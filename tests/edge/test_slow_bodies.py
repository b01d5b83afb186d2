"""A client that stops in the middle of a body holds nothing for ever."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from voxrepo.edge import http_errors
from voxrepo.edge.http_errors import MAX_BODY_BYTES, errors_as_json, read_body


async def test_a_body_that_does_not_arrive_is_answered_with_408_and_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_errors, "BODY_TIMEOUT_S", 0.2)

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await read_body(request))

    application = web.Application(middlewares=[errors_as_json])
    application[MAX_BODY_BYTES] = 1000
    application.router.add_post("/echo", echo)
    runner = web.AppRunner(application, lingering_time=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        head = b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % 5 + b"whole")
        assert (await reader.readuntil(b"whole")).startswith(b"HTTP/1.1 200 ")
        writer.write(head % 9 + b"half")
        answer = await asyncio.wait_for(reader.read(), 5)  # to the end of the connection
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"error": "the body did not arrive within 0.2 s"}
        writer.close()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("sent", [b"", b"POST /echo HTTP/1.1\r\nHost: te"])
async def test_a_connection_without_a_whole_head_ends_in_time_even_if_more_of_it_comes(sent: bytes) -> None:
    """What the idle time of the edge, :data:`voxrepo.edge.app.HTTP_IDLE_S`, relies on."""
    runner = web.AppRunner(web.Application(), keepalive_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(sent)
        await asyncio.sleep(0.2)
        writer.write(sent and b"st")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
    finally:
        await runner.cleanup()
