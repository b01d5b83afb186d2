"""``voxrepo serve``: start-up, watch, shut-down.

Order matters. The edge starts first, since a port that is taken should be said before anything is loaded; it answers
"not ready" until the engine has loaded and each voice has spoken its probe. At the end the edge goes first, so that
no request meets an engine that is already stopping.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

import psutil

from voxrepo.edge.options import EdgeOptions
from voxrepo.engine.binary import find_engine
from voxrepo.repository.check import take_inventory
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.supervisor.arms import Arms
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.controller import ControllerChild
from voxrepo.supervisor.device import choose_device, prepare_emulator
from voxrepo.supervisor.edges import Edges
from voxrepo.supervisor.engine_keeper import ENGINE_EXIT_MARGIN_S, EngineKeeper
from voxrepo.supervisor.loader import initial_statuses
from voxrepo.supervisor.options import ServeOptions
from voxrepo.supervisor.replica import replica_name
from voxrepo.supervisor.state import ServerState, StateFolder, remove_quietly
from voxrepo_contract.errors import ConfigError, VoxrepoError

log = logging.getLogger(__name__)

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
        binary = find_engine(options.engine)
        self._folder = StateFolder(options.layout)
        self._edges: Edges | None = None
        controller = ControllerChild(options.layout, self._folder.logs / "controller.log")
        self._controller = controller if options.controller else None
        self._stop_signals = 0
        name = replica_name(options.layout, options.replica_name)
        self._device = choose_device(options.device, worker_python=options.worker_python)
        state = ServerState(
            pid=os.getpid(),
            started_at=psutil.Process().create_time(),
            phase="starting",
            engine=binary.source,
            device=self._device.device,
            device_label=self._device.label,
            log_folder=str(self._folder.logs),
            replica=name,
        )
        self._board = Board(self._folder, state, on_change)
        self._board.device = self._device.device
        self._arms = Arms(options.layout, name, self._board, lambda: self._edges, options.load_timeout_s)
        self._engine = EngineKeeper(
            options, binary, self._folder, self._board, lambda: self._edges, lambda: self._stop_signals > 0, self._arms
        )

    @property
    def state(self) -> ServerState:
        """As it is now."""
        return self._board.state

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
        # asked twice: do not wait for requests in flight
        at_once = self._stop_signals > 1
        if at_once and self._edges is not None:
            self._edges.kill()
        # nobody is served yet while it starts, and a load can take minutes
        if at_once or self.state.phase in {"starting", "loading"}:
            self._engine.kill()

    # start-up

    def _startup(self) -> None:
        self._engine.sweep()
        self._board.update(phase="starting")
        log.log(logging.WARNING if self._device.device == "emulator" else logging.INFO, "device %s", self._device.label)
        self._device = prepare_emulator(
            self._device, self._options.emulator_settings, self._folder.path, self._folder.logs / "emulator"
        )
        self._engine.device = self._device.environment()
        self._check_repository()
        if self._options.callables:
            door = self._engine.open_door()
            self._folder.write_token(door.token)
            self._board.update(
                callables_url=f"http://127.0.0.1:{door.port}",
                callables_token_file=str(self._folder.token_file),
            )
        self._board.publish(ready=False)
        self._start_edge()
        self._arms.start()
        if self._controller is not None:
            self._controller.start()
        try:
            self._engine.start()
        except VoxrepoError:
            if not self._stop_signals:  # stopped while starting: not a failure
                raise

    def _check_repository(self) -> None:
        layout = self._options.layout
        inventory = take_inventory(layout, lambda name: log.info("checking %s", name), usable_cores())
        self._board.inventory = inventory
        for problem in inventory.problems:
            log.error("%s is not served: %s", problem.subject, problem.reason)
        if not (inventory.voices or inventory.models or inventory.problems or self._options.callables):
            raise ConfigError(
                f"nothing to serve in {layout.root}: neither ensembles/<voice>/voice.yaml nor "
                "model_repository/<model>; import a voice with `voxrepo voice import piper --name en-joe`, "
                "or name another folder with --root"
            )
        self._board.update(models=list(initial_statuses(inventory).values()))

    def _start_edge(self) -> None:
        options = EdgeOptions(
            engine=self._engine.target,
            table=self._folder.table_file,
            host=self._options.host,
            http_port=self._options.http_port,
            grpc_port=self._options.grpc_port,
            metrics_port=self._options.metrics_port,
            engine_metrics_url=self._engine.metrics_url,
            drain_timeout_s=self._options.drain_timeout_s,
            log_text=self._options.log_text,
            routing_key_header=self._options.routing_key_header,
            rollout_folder=RolloutFolder(self._options.layout.rollouts).replica(self.state.replica),
            **vars(self._options.limits),
        )
        self._edges = Edges(options, self._options.edge_workers, self._folder.edge, self._folder.logs)
        http_port, grpc_port, metrics_port = self._edges.ports
        host = "localhost" if self._options.host in {"127.0.0.1", "0.0.0.0"} else self._options.host  # noqa: S104
        self._edges.start(lambda: self._stop_signals > 0)
        self._board.edge_workers = self._edges.serving
        self._board.update(
            edge_workers=self._edges.statuses,
            http_url=f"http://{host}:{http_port}",
            grpc_url=f"{host}:{grpc_port}",
            metrics_url=f"http://{host}:{metrics_port}/metrics",
        )

    # watch

    def _watch(self) -> None:
        while not self._stop_signals:
            time.sleep(WATCH_INTERVAL_S)
            if self._edges is not None and not self._stop_signals:
                self._edges.step(time.monotonic())
                self._tell_who_serves(self._edges.serving)
            if self._controller is not None and not self._stop_signals:
                self._controller.step(time.monotonic())
            if not self._stop_signals:
                self._engine.step(time.monotonic())
            edges = self._edges.statuses if self._edges is not None else []
            changes: dict[str, object] = {
                "edge_workers": edges,
                "edge_restarts": sum(worker.restarts for worker in edges),
                **self._engine.numbers,
            }
            has_changed = any(getattr(self.state, name) != value for name, value in changes.items())
            if self._board.table.catch_up() or has_changed:
                self._board.update(phase=self._engine.phase, **changes)
                self._board.write_numbers()

    def _tell_who_serves(self, workers: list[int]) -> None:
        """Let edge processes take over the places of one that has ended; they are divided anew when it is back."""
        if workers and workers != self._board.edge_workers:
            self._board.edge_workers = workers
            self._board.publish()

    # shut-down

    def _shutdown(self) -> bool:
        self._engine.leave_alone()
        if self._controller is not None:
            self._controller.ask_to_end()
        self._board.update(phase="draining")
        if self.state.held:  # nothing is recovered any more: they are not to wait for it
            self._board.update(held=[])
            self._board.publish(ready=False)
        clean = True
        if self._edges is not None:
            clean &= self._edges.stop(self._options.drain_timeout_s + ENGINE_EXIT_MARGIN_S)
        clean &= self._engine.stop()
        if self._controller is not None:
            self._controller.stop()
        for file in (self._folder.token_file, self._folder.table_file, self._folder.supervision_file):
            remove_quietly(file)
        self._board.update(phase="stopped", engine_pid=None, edge_workers=[])
        self._folder.release()
        return clean
