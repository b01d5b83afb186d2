"""The metrics page: the series of all edge processes, then the engine's."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import aiohttp
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from voxrepo.metrics.registry import EdgeMetrics
from voxrepo.metrics.shared import registry_of_all
from voxrepo.metrics.supervision import read_supervision

FRESH_S = 15.0
"""Age beyond which the series of the rollouts' controller were left by one that has ended."""

log = logging.getLogger(__name__)

ENGINE_TIMEOUT_S = 2.0


class MetricsPage:
    """Serves ``/metrics``.

    Args:
        metrics: the series of this process.
        engine_url: the engine's metrics page, None if it has none.
        timeout_s: how long a scrape waits for the engine.
        metrics_folder: where all processes count, None if this is the only one and counts in its memory.
        supervision_file: where the supervisor writes its series, if there is one.
        rollouts_file: where the rollouts' controller writes its series, likewise.
    """

    def __init__(
        self,
        metrics: EdgeMetrics,
        engine_url: str | None,
        timeout_s: float = ENGINE_TIMEOUT_S,
        metrics_folder: Path | None = None,
        supervision_file: Path | None = None,
        rollouts_file: Path | None = None,
    ) -> None:
        self._metrics = metrics
        self._folder = metrics_folder
        self._supervision_file = supervision_file
        self._rollouts_file = rollouts_file
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
        self._metrics.refresh()
        edge_text = await asyncio.to_thread(self._render)
        return web.Response(body=edge_text + engine_text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _render(self) -> bytes:
        text = self._metrics.render() if self._folder is None else generate_latest(registry_of_all(self._folder))
        text += read_supervision(self._supervision_file) if self._supervision_file is not None else b""
        return text + (read_supervision(self._rollouts_file, FRESH_S) if self._rollouts_file is not None else b"")
