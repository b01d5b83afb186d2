"""``voxrepo serve``: start-up, watch, shut-down.

Order matters. The edge starts first, since a port that is taken should be said before anything is loaded; it answers
"not ready" until the engine has loaded and each voice has spoken its probe. At the end the edge goes first, so that
no request meets an engine that is already stopping.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable
from types import FrameType

import psutil

from voxrepo.edge.options import EdgeOptions, edge_command
from voxrepo.engine.binary import find_engine
from voxrepo.engine.command import RemoteControl, engine_command, engine_environment
from voxrepo.engine.control import EngineControl
from voxrepo.engine.sweep import close_to_others, sweep
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.check import Inventory, take_inventory
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.publish import publish_all
from voxrepo.supervisor.child import Child
from voxrepo.supervisor.device import choose_device, prepare_emulator
from voxrepo.supervisor.loader import EngineEnded, edge_table, initial_statuses, load_everything
from voxrepo.supervisor.options import ServeOptions
from voxrepo.supervisor.ports import free_port, is_free
from voxrepo.supervisor.state import ModelStatus, Phase, ServerState, StateFolder, remove_quietly
from voxrepo.supervisor.suspects import Suspects
from voxrepo.supervisor.tablefile import TableFile
from voxrepo.supervisor.tending import Tending
from voxrepo_contract.errors import ConfigError, Unavailable, VoxrepoError

log = logging.getLogger(__name__)

ENGINE_START_TIMEOUT_S = 60.0
EDGE_START_TIMEOUT_S = 30.0
ENGINE_EXIT_MARGIN_S = 5.0
ENGINE_EXIT_TIMEOUT_S = 10
"""For unloading. The edge has drained before: nobody waits for what still runs in the engine."""
WATCH_INTERVAL_S = 0.2


class Server:
    """One server: a supervisor with its engine and edge. Runs in the main thread.

    Args:
        options: what was asked for.
        on_change: told about every change of state, for whoever watches.

    Raises:
        ConfigError: there is no engine, or not the device that was asked for.
    """

    def __init__(self, options: ServeOptions, on_change: Callable[[ServerState], None] = lambda state: None) -> None:
        self._options = options
        self._on_change = on_change
        self._binary = find_engine(options.engine)
        self._folder = StateFolder(options.layout)
        self._workspace = Workspace.of(options.layout)
        self._inventory = Inventory()
        self._engine: Child | None = None
        self._edge: Child | None = None
        self._table = TableFile(self._folder.table_file)
        self._stop_signals = 0
        self._edge_ports: tuple[int, int, int] = (options.http_port, options.grpc_port, options.metrics_port)
        self._engine_metrics_port = free_port()
        self._remote: RemoteControl | None = None
        self._suspects = Suspects()
        self._device = choose_device(options.device, worker_python=options.worker_python)
        self.state = ServerState(pid=os.getpid(), started_at=psutil.Process().create_time(), phase="starting")

    def run(self) -> int:
        """Serve until a signal comes.

        Returns:
            exit code: 0 after an orderly end, 1 if requests had to be cut off.

        Raises:
            VoxrepoError: the server could not start; everything started so far has been stopped.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        self._folder.acquire()
        try:
            self._startup()
            self._watch()
        finally:
            clean = self._shutdown()
        return 0 if clean else 1

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop_signals += 1
        children = []
        if self.state.phase in {"starting", "loading"}:
            # nobody is served yet, and a load can take minutes
            children = [self._engine]
        if self._stop_signals > 1:
            # asked twice: do not wait for requests in flight
            children = [self._edge, self._engine]
        for child in children:
            if child is not None:
                child.kill()

    # start-up

    def _startup(self) -> None:
        swept = sweep(self._workspace)
        if swept.processes or swept.shm_regions:
            log.warning(
                "the last run of this server was killed; removed %d processes and %d shared memory regions it left",
                len(swept.processes),
                len(swept.shm_regions),
            )
        self._update(
            phase="starting",
            log_folder=str(self._folder.logs),
            engine=self._binary.source,
            device=self._device.device,
            device_label=self._device.label,
        )
        log.log(logging.WARNING if self._device.device == "emulator" else logging.INFO, "device %s", self._device.label)
        self._device = prepare_emulator(
            self._device, self._options.emulator_settings, self._folder.path, self._folder.logs / "emulator"
        )
        self._check_repository()
        if self._options.callables:
            self._remote = RemoteControl(free_port(), secrets.token_urlsafe(24))
            self._folder.write_token(self._remote.token)
            self._update(
                callables_url=f"http://127.0.0.1:{self._remote.port}",
                callables_token_file=str(self._folder.token_file),
            )
        self._publish()
        self._start_edge()
        try:
            self._start_engine()
        except VoxrepoError:
            if not self._stop_signals:  # stopped while starting: not a failure
                raise

    def _check_repository(self) -> None:
        layout = self._options.layout
        inventory = take_inventory(layout, lambda name: log.info("checking %s", name), usable_cores())
        self._inventory = inventory
        self._render_configs()
        for problem in inventory.problems:
            log.error("%s is not served: %s", problem.subject, problem.reason)
        if not (inventory.voices or inventory.models or inventory.problems or self._options.callables):
            raise ConfigError(
                f"nothing to serve in {layout.root}: neither ensembles/<voice>/voice.yaml nor "
                "model_repository/<model>; import a voice with `voxrepo voice import piper --name en-joe`, "
                "or name another folder with --root"
            )
        self.state.models = list(initial_statuses(inventory).values())

    def _render_configs(self) -> None:
        """Write what the engine reads anew from the inventory: others, such as a conversion, may have changed it."""
        for file in publish_all(self._options.layout, self._inventory, usable_cores()):
            log.info("rendered %s", file)

    def _start_edge(self) -> None:
        if self._edge is not None:
            self._edge.kill()  # one that listens and could not say so still holds the ports
        remove_quietly(self._folder.ready_file)
        http_port, grpc_port, metrics_port = self._edge_ports
        options = EdgeOptions(
            engine=self._workspace.grpc_target,
            table=self._folder.table_file,
            host=self._options.host,
            http_port=http_port,
            grpc_port=grpc_port,
            metrics_port=metrics_port,
            engine_metrics_url=f"http://127.0.0.1:{self._engine_metrics_port}/metrics",
            drain_timeout_s=self._options.drain_timeout_s,
            ready_file=self._folder.ready_file,
            log_text=self._options.log_text,
        )
        self._edge = Child("edge", edge_command(options), self._folder.logs / "edge.log")
        end = time.monotonic() + EDGE_START_TIMEOUT_S
        while not (ports := self._edge_facts()):
            if not self._edge.is_running():
                raise ConfigError(self._edge.last_words() or "the edge ended at once; see logs/edge.log")
            if time.monotonic() > end:
                raise Unavailable(f"the edge did not listen within {EDGE_START_TIMEOUT_S:g} s")
            time.sleep(0.02)
        # a restarted edge must come back on the ports that clients know
        self._edge_ports = (ports["http_port"], ports["grpc_port"], ports["metrics_port"])
        host = "localhost" if self._options.host in {"127.0.0.1", "0.0.0.0"} else self._options.host  # noqa: S104
        self._update(
            edge_pid=self._edge.pid,
            http_url=f"http://{host}:{ports['http_port']}",
            grpc_url=f"{host}:{ports['grpc_port']}",
            metrics_url=f"http://{host}:{ports['metrics_port']}/metrics",
        )

    def _edge_facts(self) -> dict[str, int]:
        """Ports of the edge and the generation of its table; empty while it does not listen."""
        try:
            facts: dict[str, int] = json.loads(self._folder.ready_file.read_bytes())
        except (OSError, json.JSONDecodeError):
            return {}
        return facts

    def _wait_for_edge(self) -> bool:
        """Wait until the edge goes by the table written last; whether it does. Only then is what it says true."""
        end = time.monotonic() + EDGE_START_TIMEOUT_S
        while self._edge_facts().get("generation") != self._table.generation:
            if self._table.is_behind or time.monotonic() > end or not self._child_runs_on(self._edge):
                log.error("the edge has not taken the new table")
                return False
            time.sleep(0.02)
        return True

    def _start_engine(self) -> None:
        self._update(phase="loading")
        self._workspace.create(self._options.layout, self._binary)
        command = engine_command(
            self._binary,
            self._workspace,
            metrics_port=self._engine_metrics_port,
            exit_timeout_s=ENGINE_EXIT_TIMEOUT_S,
            remote=self._remote,
        )
        self._engine = Child(
            "engine",
            command,
            self._folder.logs / "engine.log",
            engine_environment(
                self._binary,
                os.environ,
                costs_folder=self._options.layout.state / "costs",
                locks_folder=self._options.layout.state / "locks",
                device=self._device.environment(),
            ),
        )
        self._update(engine_pid=self._engine.pid)
        with EngineControl(self._workspace.grpc_target) as control:
            control.wait_live(ENGINE_START_TIMEOUT_S, lambda: self._child_runs_on(self._engine))
        if self._stop_signals:
            return
        try:
            statuses = load_everything(
                self._workspace.grpc_target,
                self._inventory,
                self._log_status,
                suspects=self._suspects.names,
                is_running=lambda: self._child_runs_on(self._engine),
            )
        except EngineEnded as error:
            if not self._stop_signals:
                self._suspects.blame(error, self._inventory)
            return
        close_to_others(self._workspace)
        if self._stop_signals:  # which killed the engine: that nothing has loaded says nothing
            return
        self.state.models = list(statuses.values())
        self._publish(ready=True)
        taken = self._wait_for_edge()
        self._update(phase=self.state.phase_of_models if taken else "degraded")

    def _child_runs_on(self, child: Child | None) -> bool:
        return child is not None and child.is_running() and not self._stop_signals

    def _log_status(self, status: ModelStatus) -> None:
        if self._stop_signals:
            return
        if status.state == "failed":
            log.error("%s %s is not served: %s", status.kind, status.name, status.reason)
        else:
            log.info("%s %s is ready", status.kind, status.name)

    # watch

    def _watch(self) -> None:
        edge = Tending("edge", lambda: self._edge, lambda: self._update(phase="degraded"), self._start_edge)
        engine = Tending("engine", lambda: self._engine, self._engine_died, self._restart_engine)
        while not self._stop_signals:
            time.sleep(WATCH_INTERVAL_S)
            for tending in (edge, engine):
                if not self._stop_signals:
                    tending.step(time.monotonic())
            restarts = {"edge_restarts": edge.restarts, "engine_restarts": engine.restarts}
            if self._table.catch_up() or any(getattr(self.state, name) != count for name, count in restarts.items()):
                self._update(phase=self.state.phase_of_models, **restarts)

    def _engine_died(self) -> None:
        models = [
            status if status.state == "failed" else status.model_copy(update={"state": "loading"})
            for status in self.state.models
        ]
        self._update(phase="loading", models=models)
        self._publish()

    def _restart_engine(self) -> None:
        if self._engine is not None:
            self._engine.kill()
        # the edge names the engine's socket on its command line and must live on
        sweep(self._workspace, spare={self._edge.pid} if self._edge else set())
        if not is_free(self._engine_metrics_port):
            self._engine_metrics_port = free_port()
            if self._edge is not None:
                self._edge.stop(ENGINE_EXIT_MARGIN_S)  # it comes back with the new port
        self._render_configs()
        self._start_engine()

    # shut-down

    def _shutdown(self) -> bool:
        self._update(phase="draining")
        clean = True
        if self._edge is not None:
            clean &= self._edge.stop(self._options.drain_timeout_s + ENGINE_EXIT_MARGIN_S)
        if self._engine is not None:
            clean &= self._engine.stop(ENGINE_EXIT_TIMEOUT_S + ENGINE_EXIT_MARGIN_S)
        sweep(self._workspace)
        for file in (self._folder.ready_file, self._folder.token_file, self._folder.table_file):
            remove_quietly(file)
        self._update(phase="stopped", engine_pid=None, edge_pid=None)
        self._folder.release()
        return clean

    # state

    def _publish(self, ready: bool = False) -> None:
        self._table.put(
            edge_table(
                self._table.generation + 1,
                self._inventory,
                self.state.models,
                ready=ready,
                cores=usable_cores(),
                device=self._device.device,
            )
        )

    def _update(self, phase: Phase | None = None, **changes: object) -> None:
        if phase is not None:
            changes["phase"] = phase
        self.state = self.state.model_copy(update=changes)
        try:
            self._folder.write(self.state)
        except OSError as error:
            # a full disk must not take a serving server down
            log.error("the state could not be written: %s", error)
        with contextlib.suppress(OSError):  # nor must one under the file that takes this process's output
            self._on_change(self.state)
