from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from voxrepo.metrics.exposition import MetricsPage
from voxrepo.metrics.registry import EdgeMetrics


async def scrape(engine_url: str | None) -> str:
    page = MetricsPage(EdgeMetrics(), engine_url, timeout_s=0.3)
    async with TestClient(TestServer(page.application())) as client:
        response = await client.get("/metrics")
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain")
        text: str = await response.text()
        return text


async def engine_page(_: web.Request) -> web.Response:
    return web.Response(text="nv_inference_request_success 4\n")


async def slow_page(_: web.Request) -> web.Response:
    await asyncio.sleep(5)
    return web.Response(text="late")


@pytest.mark.parametrize(("handler", "up"), [(engine_page, True), (slow_page, False)])
async def test_the_engines_series_follow_or_are_reported_missing(handler: object, up: bool) -> None:
    app = web.Application()
    app.router.add_get("/metrics", handler)  # type: ignore[arg-type]
    async with TestServer(app) as server:
        text = await scrape(str(server.make_url("/metrics")))
    assert f"voxrepo_engine_metrics_up {int(up)}.0" in text
    assert ("nv_inference_request_success 4" in text) == up


async def test_an_engine_that_is_down_does_not_break_the_page() -> None:
    text = await scrape("http://127.0.0.1:9/metrics")
    assert "voxrepo_engine_metrics_up 0.0" in text
    assert "voxrepo_in_flight 0.0" in text


def test_the_device_is_one_of_three() -> None:
    metrics = EdgeMetrics()
    metrics.set_device("npu")
    metrics.set_device("emulator")
    text = metrics.render().decode()
    for name, value in (("cpu", 0), ("npu", 0), ("emulator", 1)):
        assert f'voxrepo_device{{device="{name}"}} {value}.0' in text
