"""The edge's processes: started on shared ports, watched, started again one by one, and stopped together."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from voxrepo.edge.options import EdgeOptions, edge_command
from voxrepo.metrics.shared import clear_gauges, empty_folder
from voxrepo.supervisor.child import Child
from voxrepo.supervisor.ports import KeptPorts
from voxrepo.supervisor.state import EdgeWorkerStatus, remove_quietly
from voxrepo.supervisor.tending import Tending
from voxrepo_contract.errors import ConfigError, Unavailable

log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
STOP_MARGIN_S = 5.0
_LOOK_INTERVAL_S = 0.02

CORES_PER_WORKER = 16
"""For the default number of workers: on a CPU the engine needs some 20 times the processor time of the edge for a short
request, measured on 2 cores with the voice en-joe; see docs/operations.md."""
MOST_WORKERS_BY_DEFAULT = 4
MOST_WORKERS = 64


def default_workers(cores: int) -> int:
    """Edge processes of a machine with this many usable cores, unless it is told another number."""
    return min(max(cores // CORES_PER_WORKER, 1), MOST_WORKERS_BY_DEFAULT)


class Worker:
    """One process of the edge, and those that replace it.

    Args:
        options: its settings, those of this worker included.
        log_file: takes its output.
        ready_file: where it says what it does.
    """

    def __init__(self, options: EdgeOptions, log_file: Path, ready_file: Path) -> None:
        self.options = dataclasses.replace(options, ready_file=ready_file)
        self.child: Child | None = None
        self._log_file = log_file
        self._ready_file = ready_file
        self._name = f"edge worker {options.worker + 1}"
        self._patience_ends_s = 0.0
        self.tending = Tending(self._name, lambda: self.child, self._died, self.start)

    def start(self) -> None:
        """Start it. Does not wait until it listens."""
        if self.child is not None:
            self.child.kill()  # with what it may have left of its process group
        self._forget()
        self._patience_ends_s = time.monotonic() + START_TIMEOUT_S
        self.child = Child(self._name, edge_command(self.options), self._log_file)

    def step(self, now_s: float) -> None:
        """Look after it once: start it again if it has ended, end it if it does not come to listen."""
        self.tending.step(now_s)
        if self.is_running() and not self.serves and now_s > self._patience_ends_s and self.child is not None:
            log.error("the %s did not listen within %g s", self._name, START_TIMEOUT_S)
            self.child.kill()

    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self.child is not None and self.child.is_running()

    @property
    def facts(self) -> dict[str, Any]:
        """What it last said of itself; empty if it does not listen yet or has ended."""
        try:
            facts: dict[str, Any] = json.loads(self._ready_file.read_bytes())
        except (OSError, json.JSONDecodeError):
            return {}
        return facts if self.is_running() else {}

    @property
    def generation(self) -> int | None:
        """Of the table that it goes by; ``None`` if it does not listen yet or has ended."""
        facts = self.facts
        return int(facts["generation"]) if facts else None

    @property
    def serves(self) -> bool:
        """Whether it listens."""
        return self.generation is not None

    def status(self) -> EdgeWorkerStatus:
        """What the server's state says of it."""
        pid = self.child.pid if self.child is not None and self.is_running() else None
        return EdgeWorkerStatus(pid=pid, serves=self.serves, restarts=self.tending.restarts)

    def last_words(self) -> str:
        """Why it ended, as far as it said so."""
        return (self.child.last_words() if self.child else "") or f"the {self._name} ended; see {self._log_file}"

    def close(self) -> None:
        """Remove what it left. To be called when its process has ended."""
        self._forget()

    def _died(self) -> None:
        self._forget()

    def _forget(self) -> None:
        remove_quietly(self._ready_file)
        if self.options.metrics_folder is not None:
            try:
                clear_gauges(self.options.metrics_folder, self.options.worker)
            except (OSError, RuntimeError, ValueError) as error:
                log.error("the gauges of the %s cannot be cleared: %s", self._name, error)


class Edges:
    """All edge processes of a server.

    They share the ports: the kernel gives each new connection to one of those that listen. Each counts in its own files
    in ``<folder>/metrics``, so what one has counted outlives it.

    Args:
        options: settings of all of them; ports may be 0.
        workers: how many.
        folder: for their files; emptied.
        logs: folder for their logs, ``edge.log`` for the first, ``edge-2.log`` and so on for others.

    Attributes:
        ports: HTTP, gRPC, metrics.

    Raises:
        CannotListen: a port is taken or not allowed.
        ConfigError: the folder cannot be written.
    """

    def __init__(self, options: EdgeOptions, workers: int, folder: Path, logs: Path) -> None:
        self._kept = KeptPorts(
            options.host,
            {
                "--http-port": options.http_port,
                "--grpc-port": options.grpc_port,
                "--metrics-port": options.metrics_port,
            },
        )
        http_port, grpc_port, metrics_port = self.ports = tuple(self._kept.numbers)
        metrics_folder = folder / "metrics"
        empty_folder(folder)
        empty_folder(metrics_folder)
        common = dataclasses.replace(
            options,
            http_port=http_port,
            grpc_port=grpc_port,
            metrics_port=metrics_port,
            shares_ports=True,
            workers=workers,
            metrics_folder=metrics_folder,
        )
        self._workers = [
            Worker(
                dataclasses.replace(common, worker=number),
                logs / ("edge.log" if number == 0 else f"edge-{number + 1}.log"),
                folder / f"{number}.json",
            )
            for number in range(workers)
        ]

    def start(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Start all and wait until each listens.

        Args:
            give_up: asked while waiting; if true, the wait ends.

        Raises:
            ConfigError: one ended; says what it said.
            Unavailable: one did not listen in time.
        """
        for worker in self._workers:
            worker.start()
        end_s = time.monotonic() + START_TIMEOUT_S
        while not give_up() and not all(worker.serves for worker in self._workers):
            for worker in self._workers:
                if not worker.is_running():
                    raise ConfigError(worker.last_words())
            if time.monotonic() > end_s:
                raise Unavailable(f"the edge did not listen within {START_TIMEOUT_S:g} s")
            time.sleep(_LOOK_INTERVAL_S)

    def step(self, now_s: float) -> None:
        """Look after each once; waits for nothing.

        Args:
            now_s: time on the clock of ``time.monotonic``.
        """
        for worker in self._workers:
            worker.step(now_s)

    def wait_for(self, generation: int, give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until every process that runs goes by a table; those that start later will from their start.

        Args:
            generation: of the table.
            give_up: asked while waiting; if true, the wait ends.

        Returns:
            whether they all do, and at least one runs.
        """
        end_s = time.monotonic() + START_TIMEOUT_S
        while True:
            running = [worker for worker in self._workers if worker.is_running()]
            if running and all(worker.generation == generation for worker in running):
                return True
            if not running or give_up() or time.monotonic() > end_s:
                return False
            time.sleep(_LOOK_INTERVAL_S)

    def are_free_of(self, generation: int, key: str) -> bool:
        """Whether every process that runs goes by a table, and none has a request that uses something any more.

        Args:
            generation: of the table, by which new requests do not use it.
            key: what it is, see :func:`voxrepo.edge.in_use.usage_key`.
        """
        said = [worker.facts for worker in self._workers if worker.is_running()]
        return bool(said) and all(
            facts.get("generation") == generation and not facts.get("in_use", {}).get(key) for facts in said
        )

    def use_engine_metrics(self, url: str) -> None:
        """Read the engine's metrics elsewhere from now on. All end in order; :meth:`step` restarts."""
        for worker in self._workers:
            worker.options = dataclasses.replace(worker.options, engine_metrics_url=url)
        self._stop_children(STOP_MARGIN_S)

    @property
    def pids(self) -> set[int]:
        """Ids of the processes that run."""
        return {worker.child.pid for worker in self._workers if worker.child is not None and worker.is_running()}

    @property
    def statuses(self) -> list[EdgeWorkerStatus]:
        """What the server's state says of each."""
        return [worker.status() for worker in self._workers]

    @property
    def serving(self) -> list[int]:
        """Numbers of those that listen."""
        return [number for number, worker in enumerate(self._workers) if worker.serves]

    @property
    def all_serve(self) -> bool:
        """Whether each of them listens."""
        return all(worker.serves for worker in self._workers)

    def kill(self) -> None:
        """End all at once, whatever they do."""
        for worker in self._workers:
            if worker.child is not None:
                worker.child.kill()

    def stop(self, timeout_s: float) -> bool:
        """Let all finish what they do, side by side, then give up the ports.

        Args:
            timeout_s: after which those that still run are killed.

        Returns:
            whether all ended in order.
        """
        clean = self._stop_children(timeout_s)
        for worker in self._workers:
            worker.close()
        self._kept.close()
        return clean

    def _stop_children(self, timeout_s: float) -> bool:
        end_s = time.monotonic() + timeout_s
        children = [worker.child for worker in self._workers if worker.child is not None]
        for child in children:
            child.ask_to_end()
        ended = [child.stop(max(end_s - time.monotonic(), 0.0)) for child in children]
        return all(ended)
