"""Keeping the engine up: its start with everything loaded, what is done when it is sick, and when it has ended."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Set

from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.command import RemoteControl, engine_command, engine_environment
from voxrepo.engine.control import EngineControl
from voxrepo.engine.sweep import close_to_others, sweep
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.arms import remove_left_arms
from voxrepo.repository.check import Inventory
from voxrepo.repository.cpu_plan import usable_cores
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_all
from voxrepo.repository.publishing import RECOVERY_WAIT_S, publishing
from voxrepo.supervisor.arm_change import EngineFacts
from voxrepo.supervisor.arms import Arms
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.child import Child
from voxrepo.supervisor.edges import Edges
from voxrepo.supervisor.engine_watch import EngineWatch, limits_of
from voxrepo.supervisor.loader import EngineEnded, load_everything
from voxrepo.supervisor.options import ServeOptions
from voxrepo.supervisor.ports import free_port, is_free
from voxrepo.supervisor.recycling import wait_until_idle
from voxrepo.supervisor.state import ModelStatus, Phase, StateFolder
from voxrepo.supervisor.suspects import Suspects
from voxrepo.supervisor.tending import Tending
from voxrepo_contract.errors import VoxrepoError

log = logging.getLogger(__name__)

ENGINE_START_TIMEOUT_S = 60.0
ENGINE_EXIT_MARGIN_S = 5.0
ENGINE_EXIT_TIMEOUT_S = 10
"""For unloading. The edge has drained before: nobody waits for what still runs in the engine."""
RECYCLE_DRAIN_S = 5.0
"""For calls in the engine, and again for its own end; with its start this stays within what requests wait for a held
voice."""
PUBLISHING_WAIT_S = 60.0
"""At the server's start, for another server of the same root that is loading an arm."""


def write_anew(layout: Layout, inventory: Inventory, *, is_alone: bool) -> None:
    """Write what an engine that has loaded nothing yet reads; others, such as a conversion, may have changed it.

    Args:
        layout: of the root.
        inventory: of the repository; a voice that cannot be written becomes a problem of it.
        is_alone: whether no other server may be loading an arm. The folders of arms go only then: one that a killed
            server left does no harm, and goes another time.
    """
    if is_alone:
        for folder in remove_left_arms(layout):
            log.info("removed %s, an arm that has to be loaded anew", folder)
    known = len(inventory.problems)
    for file in publish_all(layout, inventory, usable_cores()):
        log.info("rendered %s", file)
    for problem in inventory.problems[known:]:
        log.error("%s is not served: %s", problem.subject, problem.reason)


class EngineKeeper:
    """Keeps one server's engine.

    Args:
        options: of the server.
        binary: the engine's program.
        folder: for its log.
        board: told of everything that concerns others.
        edges: the edge's processes, ``None`` before their start.
        is_stopping: whether the server has been asked to end.
        arms: of rollouts.

    Attributes:
        device: settings of the device for the engine's environment.
        remote: the engine's own door on loopback, if it is to have one.
        restarts: how often it was started again after its end.
    """

    def __init__(
        self,
        options: ServeOptions,
        binary: EngineBinary,
        folder: StateFolder,
        board: Board,
        edges: Callable[[], Edges | None],
        is_stopping: Callable[[], bool],
        arms: Arms,
    ) -> None:
        self._options = options
        self._binary = binary
        self._folder = folder
        self._board = board
        self._edges = edges
        self._is_stopping = is_stopping
        self._workspace = Workspace.of(options.layout)
        self._metrics_port = free_port()
        self._suspects = Suspects()
        self._arms = arms
        self._told_held: frozenset[str] = frozenset()
        self._watch = EngineWatch(self._workspace, limits_of(options), self._edge_holds, arms, options.layout)
        self._tending = Tending("engine", lambda: self._child, self._died, self._restart)
        self._recycles = 0
        self._wants_recycling = False
        self._child: Child | None = None
        self.device: dict[str, str] = {}
        self.remote: RemoteControl | None = None

    @property
    def target(self) -> str:
        """Its gRPC address."""
        return self._workspace.grpc_target

    @property
    def metrics_url(self) -> str:
        """Its own metrics page."""
        return f"http://127.0.0.1:{self._metrics_port}/metrics"

    def open_door(self) -> RemoteControl:
        """Have the engine listen on loopback from its next start on."""
        self.remote = RemoteControl(free_port(), secrets.token_urlsafe(24))
        return self.remote

    def sweep(self) -> None:
        """Remove what a run of this server that was killed has left."""
        swept = sweep(self._workspace)
        if swept.processes or swept.shm_regions:
            log.warning(
                "the last run of this server was killed; removed %d processes and %d shared memory regions it left",
                len(swept.processes),
                len(swept.shm_regions),
            )

    # start

    def start(self, wait_s: float = PUBLISHING_WAIT_S) -> None:
        """Start the engine and load everything; tell the edge.

        It returns early, and says nothing, if the server is asked to end or the engine ends.

        Args:
            wait_s: for other servers of the root that are loading; see :func:`publishing`.

        Raises:
            VoxrepoError: the engine did not start.
        """
        self._board.update(phase="loading")
        patience_s = self._workspace.create(self._options.layout, self._binary)
        command = engine_command(
            self._binary,
            self._workspace,
            metrics_port=self._metrics_port,
            exit_timeout_s=ENGINE_EXIT_TIMEOUT_S,
            remote=self.remote,
        )
        self._child = child = Child(
            "engine",
            command,
            self._folder.logs / "engine.log",
            engine_environment(
                self._binary,
                os.environ,
                costs_folder=self._options.layout.state / "costs",
                locks_folder=self._options.layout.state / "locks",
                device=self.device,
                stub_patience_s=patience_s,
                stubs_folder=self._workspace.stubs,
            ),
        )
        self._board.update(engine_pid=child.pid)
        with EngineControl(self.target) as control:
            control.wait_live(ENGINE_START_TIMEOUT_S, self._goes_on)
        if self._is_stopping():
            return
        inventory = self._board.inventory
        try:
            with publishing(self._options.layout, lambda: not self._goes_on(), wait_s) as is_alone:
                if not self._goes_on():
                    return
                write_anew(self._options.layout, inventory, is_alone=is_alone)
                statuses = load_everything(
                    self.target,
                    inventory,
                    self._log_status,
                    suspects=self._suspects.names,
                    is_running=self._goes_on,
                    load_timeout_s=self._options.load_timeout_s,
                )
        except EngineEnded as error:
            if not self._is_stopping():
                self._suspects.blame(error, inventory)
            return
        close_to_others(self._workspace)
        if self._is_stopping():  # which killed the engine: that nothing has loaded says nothing
            return
        ready = {name for name, status in statuses.items() if status.state == "ready"}
        self._watch.engine_started(child.pid, inventory, ready, time.monotonic())
        self._board.update(models=list(statuses.values()), held=[])
        self._arms.engine_started(
            EngineFacts(
                self.target,
                self._watch.stub_bytes,
                self._watch.bytes_left,
                self._watch.look_for_new_stubs,
                self._watch.voice_moved,
                self._watch.versions_released,
                self._watch.is_tried,
                self._watch.try_again,
            )
        )
        self._board.publish(ready=True)
        taken = self._wait_for_edge()
        self._board.update(phase=self.phase if taken else "degraded")

    def _goes_on(self) -> bool:
        return self._child is not None and self._child.is_running() and not self._is_stopping()

    def _log_status(self, status: ModelStatus) -> None:
        if self._is_stopping():
            return
        if status.state == "failed":
            log.error("%s %s is not served: %s", status.kind, status.name, status.reason)
        else:
            log.info("%s %s is ready", status.kind, status.name)

    def _wait_for_edge(self) -> bool:
        """Wait until the edge goes by the table written last; whether it does. Only then is what it says true."""
        table, edges = self._board.table, self._edges()
        taken = edges is not None and edges.wait_for(table.generation, lambda: table.is_behind or self._is_stopping())
        if not taken:
            log.error("the edge has not taken the new table")
        return taken

    def _edge_holds(self, subjects: Set[str]) -> bool:
        edges = self._edges()
        return (
            subjects <= self._told_held
            and edges is not None
            and edges.wait_for(self._board.table.generation, lambda: True)
        )

    @property
    def phase(self) -> Phase:
        """The server's phase by its models and edge processes."""
        edges = self._edges()
        whole = edges is not None and edges.all_serve
        return self._board.state.phase_of_models if whole else "degraded"

    # watch

    def step(self, now_s: float) -> None:
        """Look after the engine once.

        Args:
            now_s: time on the clock of ``time.monotonic``.
        """
        self._tending.step(now_s)
        if self._goes_on():
            self._look_after()
        if not self._is_stopping():
            self._arms.step(time.monotonic(), self._watch.in_cure)
            if self._arms.needs_fresh_engine and self._goes_on():
                log.error("the engine is restarted, as a voice lost its versions")
                self.kill()  # and it is tended as one that ended

    @property
    def numbers(self) -> dict[str, object]:
        """What the server's state says of it."""
        return {
            "engine_restarts": self._tending.restarts,
            "engine_recycles": self._recycles,
            "engine_memory_bytes": self._watch.memory_bytes,
            "stub_restarts": self._watch.stub_restarts,
        }

    def _look_after(self) -> None:
        verdict = self._watch.step(time.monotonic())
        if verdict == "kill":
            self.kill()  # and it is tended as one that ended
            return
        state = self._board.state
        given_up, back = self._watch.take_given_up(), self._watch.take_back()
        held = sorted(self._watch.held | self._arms.held)
        if given_up or back.voices or back.models or held != state.held:
            self._board.drop(given_up)
            self._board.take_back(back)
            self._board.reloads = dict(self._watch.reloads)
            self._board.update(held=held)
            self._board.publish(ready=True)
            self._told_held = frozenset(held)
            if back.voices or back.models:
                self._wait_for_edge()
            self._board.update(phase=self.phase)
        self._wants_recycling |= verdict == "recycle"
        if self._wants_recycling and not self._arms.is_busy:
            self._wants_recycling = False
            self._recycle()

    def _recycle(self) -> None:
        """Start the engine afresh without failing a request: those that come meanwhile wait at the edge."""
        self._watch.engine_ended()
        self._arms.engine_ended(time.monotonic(), was_expected=True)
        self._board.hold_all()
        self._wait_for_edge()
        idle = wait_until_idle(self._board.state.metrics_url, RECYCLE_DRAIN_S, self._is_stopping)
        if self._is_stopping():
            return
        if not idle:
            log.warning("calls still run in the engine after %g s; it is asked to end all the same", RECYCLE_DRAIN_S)
        if self._child is not None:
            self._child.stop(RECYCLE_DRAIN_S)
        self._recycles += 1
        try:
            self._restart()
        except (VoxrepoError, OSError) as error:  # the engine has ended, and is tended as one that has
            log.error("the engine did not start: %s", error)

    # end and restart

    def _died(self) -> None:
        self._wants_recycling = False
        self._arms.engine_ended(time.monotonic())
        if self._watch.engine_ended():
            self._board.hold_all()
            self._board.update(phase="loading")
        else:
            self._board.refuse_all()

    def _restart(self) -> None:
        try:
            self._start_anew()
        except (VoxrepoError, OSError):
            self._board.refuse_all()
            raise

    def _start_anew(self) -> None:
        self.kill()
        edges = self._edges()
        # the edge names the engine's socket on its command line and must live on
        sweep(self._workspace, spare=edges.pids if edges is not None else set())
        if not is_free(self._metrics_port):
            self._metrics_port = free_port()
            if edges is not None:
                edges.use_engine_metrics(self.metrics_url)
        self.start(RECOVERY_WAIT_S)

    def kill(self) -> None:
        """End it at once."""
        if self._child is not None:
            self._child.kill()

    def leave_alone(self) -> None:
        """Cure nothing any more: the server ends."""
        self._watch.engine_ended()
        self._arms.close(time.monotonic())

    def stop(self) -> bool:
        """End it in order, and remove all that it leaves.

        Returns:
            whether it ended by itself.
        """
        clean = self._child is None or self._child.stop(ENGINE_EXIT_TIMEOUT_S + ENGINE_EXIT_MARGIN_S)
        sweep(self._workspace)
        return clean
