"""The metrics page: the edge's series, then the engine's."""

from __future__ import annotations

import asyncio
import logging

import aiohttp
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from voxrepo.metrics.registry import EdgeMetrics

log = logging.getLogger(__name__)

ENGINE_TIMEOUT_S = 2.0


class MetricsPage:
    """Serves ``/metrics``.

    Args:
        metrics: the edge's series.
        engine_url: the engine's metrics page, None if it has none.
        timeout_s: how long a scrape waits for the engine.
    """

    def __init__(self, metrics: EdgeMetrics, engine_url: str | None, timeout_s: float = ENGINE_TIMEOUT_S) -> None:
        self._metrics = metrics
        self._engine_url = engine_url
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    def application(self) -> web.Application:
        """An aiohttp application with the page."""
        app = web.Application()
        app.router.add_get("/metrics", self._page)
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, _: web.Application) -> None:
        if self._session is not None:
            await self._session.close()

    async def _engine_text(self) -> bytes:
        if self._engine_url is None:
            return b""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        try:
            async with self._session.get(self._engine_url) as response:
                response.raise_for_status()
                return await response.read()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            log.warning("the engine's metrics cannot be read: %s", error or type(error).__name__)
            return b""

    async def _page(self, _: web.Request) -> web.Response:
        engine_text = await self._engine_text()
        self._metrics.engine_metrics_up.set(1 if engine_text else 0)
        return web.Response(body=self._metrics.render() + engine_text, headers={"Content-Type": CONTENT_TYPE_LATEST})
