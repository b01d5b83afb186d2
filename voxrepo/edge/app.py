"""One edge process: its parts, its start, and its orderly stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from voxrepo.edge.admission import AdmissionLimits
from voxrepo.edge.arm_models import is_dear, serves_arms_only
from voxrepo.edge.copies import CopyCounts
from voxrepo.edge.dataplane import DataPlane
from voxrepo.edge.engine_client import EngineClient
from voxrepo.edge.grpc_front import GrpcFront
from voxrepo.edge.http_front import HttpFront
from voxrepo.edge.in_use import usage_key
from voxrepo.edge.listening import cannot_listen, check_port
from voxrepo.edge.observing import Observer
from voxrepo.edge.options import EdgeOptions
from voxrepo.edge.reloads import Reloads
from voxrepo.edge.sharing import Share
from voxrepo.edge.table import EdgeTable, TableWatcher
from voxrepo.metrics import supervision
from voxrepo.metrics.accounting import Accountant
from voxrepo.metrics.exposition import MetricsPage
from voxrepo.metrics.registry import EdgeMetrics
from voxrepo.metrics.shared import count_in_files, keep_allocated
from voxrepo.rollout.plan import metrics_file_of
from voxrepo.rollout.route import STABLE_ARM
from voxrepo_contract.yamlfile import write_text_atomically

log = logging.getLogger(__name__)

_GAUGES_INTERVAL_S = 0.5
"""How old the gauges of other workers may be on the page; those of the one that answers are of the moment."""
IN_USE_INTERVAL_S = 0.4
_CANCEL_GRACE_S = 1.0
"""How long requests that were cut off at the end of the drain get to answer."""
_FAREWELL_S = 0.2
"""How long answers get on their way before connections are ended, refusals to those that came meanwhile among them."""
HTTP_IDLE_S = 75.0
"""How long an HTTP connection may be without a request, and a request's head may take to arrive. Proxies reuse
connections for up to a minute; it must be more than that, or they would meet ends."""


@dataclass(frozen=True)
class Ports:
    """The ports in use."""

    http_port: int
    grpc_port: int
    metrics_port: int


class Edge:
    """Everything one process runs.

    Args:
        options: settings.

    Raises:
        ConfigError: the table cannot be read, or there is no place to count.
    """

    def __init__(self, options: EdgeOptions) -> None:
        self._options = options
        if options.metrics_folder is not None:
            count_in_files(options.metrics_folder, options.worker)
        self._tables = TableWatcher(options.table)
        self._engine = EngineClient(
            options.engine,
            self._calls_of,
            self._share.of(options.max_engine_calls),
            self._pool_of,
            self._leaves_one,
        )
        metrics = EdgeMetrics()
        self._observer: Observer | None = None
        if options.rollout_folder is not None:
            self._observer = Observer(
                options.rollout_folder,
                options.worker,
                lambda kind, count: metrics.observations_dropped.labels(kind).inc(count),
            )
        self._reloads = Reloads(self._engine.let_go, self._tables.table.reloads)
        self.plane = DataPlane(
            self._engine,
            self._tables,
            hold_timeout_s=options.hold_timeout_s,
            limits=self._limits(),
            show_streams=lambda voice, streams: metrics.active_streams.labels(voice).set(streams),
            observer=self._observer,
            copy_counts=CopyCounts(
                made=lambda voice, arm, outcome: metrics.copies.labels(voice, arm, outcome).inc(),
                dropped=lambda voice, reason: metrics.copies_dropped.labels(voice, reason).inc(),
            ),
            unused=self._note_unused,
        )
        self._keys_of_table: set[str] = set()
        self._noted = asyncio.Event()
        self._announced = ""
        self._announce_fault = ""
        self._engine.observers.append(
            lambda call: metrics.count_call(call.gate, call.waited_s, call.inside_s, call.own_s)
        )
        gates = self._engine.gates
        metrics.watch_engine_calls(
            running=lambda: gates.total(lambda gate: gate.running),
            draining=lambda: gates.total(lambda gate: gate.draining),
            waiting=lambda: gates.total(lambda gate: gate.waiting),
        )
        self._edge_metrics = metrics
        metrics.set_device(self._tables.table.device)
        accountant = Accountant(metrics, self.plane.is_model, options.log_text)
        key = options.routing_key_header
        self._grpc = GrpcFront(self.plane, accountant, options.max_body_bytes, options.shares_ports, key)
        http = HttpFront(self.plane, accountant, options.max_body_bytes, key)
        # a client that leaves must cancel its handler, or its request would count as served
        self._http = web.AppRunner(
            http.application(),
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=_CANCEL_GRACE_S,
            keepalive_timeout=HTTP_IDLE_S,
        )
        self._metrics = web.AppRunner(
            MetricsPage(
                metrics,
                options.engine_metrics_url,
                metrics_folder=options.metrics_folder,
                supervision_file=options.table.with_name(supervision.FILE_NAME),
                rollouts_file=None if options.rollout_folder is None else metrics_file_of(options.rollout_folder),
            ).application(),
            access_log=None,
            shutdown_timeout=1.0,
            keepalive_timeout=HTTP_IDLE_S,
        )
        self._background: list[asyncio.Task[None]] = []

    @property
    def _share(self) -> Share:
        options = self._options
        return Share(options.worker, options.workers).among(self._tables.table.edge_workers)

    def _limits(self) -> AdmissionLimits:
        options = self._options
        streams, of_voice = (
            self._share.of(limit) if limit else 0 for limit in (options.max_streams, options.max_streams_per_voice)
        )
        return AdmissionLimits(options.max_queue_s, streams, of_voice, options.max_utilisation, options.stall_timeout_s)

    def _calls_of(self, model: str) -> int | None:
        limit = self._tables.table.engine_calls.get(model)
        return None if limit is None else self._share.of(limit)

    def _pool_of(self, model: str) -> tuple[str, int] | None:
        pool = self._tables.table.pool_of(model)
        return None if pool is None else (pool, self._share.of(self._tables.table.engine_pools[pool]))

    def _leaves_one(self, model: str, version: str) -> bool:
        table = self._tables.table
        if not serves_arms_only(table, model, version):
            return False
        return is_dear(table, model, version, self._engine.costs.line)

    async def _start_site(self, runner: web.AppRunner, port: int, flag: str) -> int:
        await runner.setup()
        site = web.TCPSite(runner, self._options.host, port, reuse_port=self._options.shares_ports)
        try:
            await site.start()
        except OSError as error:
            raise cannot_listen(self._options.host, port, flag, error) from error
        return int(runner.addresses[0][1])

    async def start(self) -> Ports:
        """Listen on all ports and begin to serve.

        Raises:
            CannotListen: a port is taken or not allowed.
        """
        options = self._options
        wanted = {
            "--http-port": options.http_port,
            "--grpc-port": options.grpc_port,
            "--metrics-port": options.metrics_port,
        }
        for flag, port in wanted.items():
            if not options.shares_ports:  # else they were kept for this server before
                check_port(options.host, port, flag)
        grpc_port = self._grpc.listen(options.host, options.grpc_port)
        await self._grpc.start()
        http_port = await self._start_site(self._http, options.http_port, "--http-port")
        metrics_port = await self._start_site(self._metrics, options.metrics_port, "--metrics-port")
        ports = Ports(http_port, grpc_port, metrics_port)
        self._show(self._tables.table)
        self._write_facts(self._facts(ports))
        if self._observer is not None:
            self._observer.start()
        self._background = [
            asyncio.create_task(self._keep_announced(ports)),
            asyncio.create_task(self._tables.follow(self._taken)),
            asyncio.create_task(self._keep_files()),
        ]
        return ports

    async def _keep_files(self) -> None:
        """Keep what the pages of other workers read of this one up to date."""
        folder = self._options.metrics_folder
        said = ""
        while folder is not None:
            self._edge_metrics.refresh()
            try:
                keep_allocated(folder, self._options.worker)
                said = ""
            except OSError as error:
                if said != str(error):
                    said = str(error)
                    log.error("no room to count in %s: %s", folder, error.strerror)
            await asyncio.sleep(_GAUGES_INTERVAL_S)

    def _taken(self, table: EdgeTable) -> None:
        self._reloads.take(table.reloads)
        # the places of a process that has ended are taken over by the others
        self._engine.gates.other_limit = self._share.of(self._options.max_engine_calls)
        self._engine.gates.refresh()
        self.plane.use_limits(self._limits())
        self._show(table)

    def _show(self, table: EdgeTable) -> None:
        """Show which table this process goes by."""
        self._edge_metrics.set_device(table.device)
        self._edge_metrics.show_arms(*_arms_of(table))
        self._keys_of_table = {usage_key(entry) for entry in table.voices.values()}
        self._noted.set()

    def _facts(self, ports: Ports) -> str:
        """Where this process listens, which table it goes by, and what its requests use, all of one moment.

        No request is assigned by an older table after that.
        """
        table = self._tables.table
        facts = {"pid": os.getpid(), **vars(ports), "generation": table.generation, "in_use": self.plane.in_use.counts}
        return json.dumps(facts)

    def _write_facts(self, facts: str) -> None:
        if self._options.ready_file is None:
            return
        try:
            write_text_atomically(self._options.ready_file, facts)
            self._announced, self._announce_fault = facts, ""
        except OSError as error:  # tried again soon
            if self._announce_fault != str(error.strerror):
                self._announce_fault = str(error.strerror)
                log.error("%s cannot be written: %s", self._options.ready_file, error.strerror)

    def _note_unused(self, key: str) -> None:
        # what the table still has will be used again
        if key not in self._keys_of_table:
            self._noted.set()

    async def _keep_announced(self, ports: Ports) -> None:
        """Tell the supervisor, at once when the table changes or what it has not is used no more; else now and then."""
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._noted.wait(), IN_USE_INTERVAL_S)
            self._noted.clear()
            facts = self._facts(ports)
            if facts != self._announced:
                await asyncio.to_thread(self._write_facts, facts)  # it waits for the disk

    async def stop(self) -> bool:
        """Refuse new requests, let running ones and engine calls end, then close everything.

        The doors stay open meanwhile: who comes is told that the server stops.

        Returns:
            whether all ended within the drain timeout; what did not was cut off.
        """
        ends_s = time.monotonic() + self._options.drain_timeout_s
        self.plane.stopped.set()
        answered = await self.plane.serving.none_left(ends_s - time.monotonic())
        answered &= await self._grpc.running.none_left(ends_s - time.monotonic())
        if not answered:
            log.warning("requests are still being answered after %g s; they are cut off", self._options.drain_timeout_s)
        await self.plane.close()
        drained = await self._engine.drain(ends_s - time.monotonic())
        if not drained:
            running = self._engine.gates.total(lambda gate: gate.running)
            log.warning("%d engine calls still run after %g s", running, self._options.drain_timeout_s)
        await asyncio.sleep(_FAREWELL_S)
        await self._grpc.close()
        await self._http.cleanup()
        for task in self._background:
            task.cancel()
        if self._observer is not None:
            await asyncio.to_thread(self._observer.close)
        await self._metrics.cleanup()
        await self._engine.close()
        return drained and answered


def _arms_of(table: EdgeTable) -> tuple[dict[tuple[str, str], float], set[tuple[str, str]]]:
    """Weights and arms that are ready, by voice and arm; the stable arm among them where there is a route."""
    weights: dict[tuple[str, str], float] = {}
    for voice, route in table.routes.items():
        weights |= {(voice, arm): weight for arm, weight in route.weights.items()}
        weights[voice, STABLE_ARM] = 100.0 - sum(route.weights.values())
    ready = {(entry.base, entry.arm) for entry in table.voices.values() if entry.voice or entry.name in table.routes}
    return weights, ready


async def serve(options: EdgeOptions) -> bool:
    """Run an edge until SIGTERM or SIGINT.

    Returns:
        whether all requests ended within the drain timeout.

    Raises:
        ConfigError: the table cannot be read.
        CannotListen: a port is taken or not allowed.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    edge = Edge(options)
    try:
        ports = await edge.start()
        log.info("listening on %s: %s", options.host, ports)
        await stop.wait()
        log.info("stopping")
    finally:
        drained = await edge.stop()
    return drained
