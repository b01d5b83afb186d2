"""The stub's side of a device: one worker for all graphs of a model instance, kept alive.

    NEW ──load──► READY ──fault, death──► RESTARTING ──started, all graphs loaded──► READY
                    │                         │
                    └── device broken, or restarts do not help ──► OUT_OF_SERVICE        any ──close──► CLOSED

A keeper thread starts and ends worker processes, so that a request is never held up by it: while the worker restarts,
every request is answered at once with ``Unavailable``. The one that was on the device is made once more if the worker
is back soon, since a run changes nothing. Out of service for good is only a device that said so itself; where restarts
did not help, the keeper tries once more from time to time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from om_backend.device.description import DeviceMemory, GraphDescription
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array
from om_backend.device.observer import Observer, State
from om_backend.device.policy import (
    RestartHistory,
    RestartPolicy,
    is_repeated,
    load_error,
    out_of_service,
    run_error,
)
from om_backend.device.process import Log, WorkerProcess
from om_backend.device.reloading import LoadedFile, reload, stamp_of, start
from om_backend.device.settings import WorkerSettings
from voxrepo_contract.errors import Unavailable

AnswerT = TypeVar("AnswerT")


class DeviceWorker:
    """A device worker that is started again when it must be.

    ``load``, ``run`` and ``unload`` are for one thread at a time, as a model instance has it.

    Args:
        settings: of the worker process.
        log: for the stub's log.
        policy: of restarts.
        observer: for metrics.
        repeat_within_s: a run that failed is repeated if it failed within this time and the worker is back within
            it, too.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        log: Log,
        policy: RestartPolicy | None = None,
        observer: Observer | None = None,
        repeat_within_s: float = 8.0,
    ) -> None:
        self.settings = settings
        self._log = log
        self._history = RestartHistory(policy or RestartPolicy())
        self._observer = observer or Observer()
        self._repeat_within_s = repeat_within_s
        self._changed = threading.Condition()
        self._state = State.NEW
        self._sentence = ""
        self._process: WorkerProcess | None = None
        self._doomed: list[WorkerProcess] = []
        self._start_fault: DeviceFault | None = None
        self._graphs: dict[int, LoadedFile] = {}
        self._next_graph = 0
        self._keeper: threading.Thread | None = None
        self._probe_due_s: float | None = None

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    @property
    def name(self) -> str:
        """For logs: runtime and device."""
        settings = self.settings
        return f"{settings.runtime.name} on {settings.mode} device {settings.device_id}"

    @property
    def pid(self) -> int | None:
        """Of the worker process, if there is one."""
        process = self._process
        return None if process is None else process.pid

    def load(self, file: Path, options: Mapping[str, str]) -> tuple[int, GraphDescription]:
        """Load a graph; starts the worker if this is the first one.

        Returns:
            The number by which to run it, and what it says of itself.

        Raises:
            ConfigError: the file cannot be loaded, or the worker cannot be used.
            Unavailable: the device does not work.
        """
        try:
            return self._load(file, options)
        except DeviceFault as fault:
            self._observer.fault(fault.action)
            self._log("error", f"{self.name}: {file.name} cannot be loaded: {fault}")
            raise load_error(fault, file) from fault

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        """Run a graph.

        Args:
            graph: its number.
            inputs: one array per input, in the graph's order.

        Returns:
            Fresh arrays, in the graph's order.

        Raises:
            InvalidArgument: the request's own fault.
            Unavailable: the device failed, restarts, or is out of service.
        """
        known = self._graphs[graph]
        attempt = 0
        while True:
            process = self._ready()
            start = time.monotonic()
            try:
                outputs, run_us = process.run(graph, inputs)
            except DeviceFault as fault:
                again = is_repeated(fault, attempt, time.monotonic() - start, self._repeat_within_s)
                again = again and not self._history.is_frequent
                self._log(
                    "info" if fault.action is Action.REQUEST else "error",
                    f"{self.name}: {known.file.name} failed ({fault.action.value}): {fault}",
                )
                self._observer.fault(fault.action)
                self._follow_up(process, known, fault)
                if not (again and self._is_back()):
                    raise run_error(fault) from fault
                attempt += 1
            else:
                self._history.succeeded()
                self._observer.run(known.file.name, run_us / 1e6)
                return outputs

    def unload(self, graph: int) -> None:
        """Unload a graph; does nothing if it is not loaded."""
        with self._changed:
            known = self._graphs.pop(graph, None)
        if known is not None:
            self._ask(lambda process: process.unload(graph))

    def trim(self) -> None:
        """Give back shared memory that grew for large tensors."""
        self._ask(WorkerProcess.trim)

    def memory(self) -> DeviceMemory | None:
        """Memory of the device; ``None`` while it cannot be asked."""
        return self._ask(WorkerProcess.memory)

    def close(self) -> None:
        """End the worker. Safe to call twice."""
        with self._changed:
            self._set(State.CLOSED, "the model is being unloaded")
            keeper = self._keeper
        if keeper is not None and keeper is not threading.current_thread():
            keeper.join(self.settings.limits.close + 15)

    # ---- the caller's thread

    def _ask(self, question: Callable[[WorkerProcess], AnswerT]) -> AnswerT | None:
        """Ask a worker that is ready; ``None`` if there is none, or if it failed, which has its consequence."""
        with self._changed:
            process = self._process if self._state is State.READY else None
        if process is None:
            return None
        try:
            return question(process)
        except DeviceFault as fault:
            self._follow_up(process, None, fault)
            return None

    def _load(self, file: Path, options: Mapping[str, str]) -> tuple[int, GraphDescription]:
        for attempt in (0, 1):
            process = self._started()
            number = self._next_graph
            try:
                stamp = stamp_of(file)
                description = process.load(number, file, options)
            except OSError as error:
                raise DeviceFault("load", 0, Action.REFUSE, f"cannot be read: {error.strerror}") from error
            except DeviceFault as fault:
                self._follow_up(process, None, fault)
                passing = fault.action in (Action.RETRY, Action.RELOAD, Action.RESTART)
                if attempt or not passing or not self._is_back():
                    raise
                continue
            with self._changed:
                self._next_graph += 1
                self._graphs[number] = LoadedFile(number, file, dict(options), stamp, description)
            return number, description
        raise AssertionError("unreachable")

    def _started(self) -> WorkerProcess:
        with self._changed:
            if self._state is State.NEW:
                self._set(State.STARTING, "the device worker starts")
                self._keeper = threading.Thread(target=self._keep, name="voxrepo-device-keeper", daemon=True)
                self._keeper.start()
            self._changed.wait_for(lambda: self._state is not State.STARTING)
            fault, self._start_fault = self._start_fault, None
            if fault is not None:
                raise fault
        return self._ready()

    def _ready(self) -> WorkerProcess:
        with self._changed:
            if self._state is State.READY and self._process is not None:
                return self._process
            raise Unavailable(f"{self.name}: {self._sentence}")

    def _is_back(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._state is not State.RESTARTING, self._repeat_within_s)
            return self._state is State.READY

    def _follow_up(self, process: WorkerProcess, graph: LoadedFile | None, fault: DeviceFault) -> None:
        if fault.action is Action.RELOAD and graph is not None:
            try:
                process.unload(graph.number)
                reload(process, graph)
            except DeviceFault as second:
                self._log("error", f"{self.name}: {graph.file.name} cannot be loaded again: {second}")
                self._begin_restart(process, second)
        elif fault.action is Action.RESTART or (
            fault.action is Action.REFUSE and graph is not None and self._history.refused()
        ):
            self._begin_restart(process, fault)
        elif fault.action is Action.OUT_OF_SERVICE:
            self._retire(process, str(fault))

    def _begin_restart(self, process: WorkerProcess, fault: DeviceFault) -> bool:
        with self._changed:
            if self._process is not process or self._state is not State.READY:
                return False
            self._doomed.append(process)
            self._process = None
            self._set(State.RESTARTING, f"the device worker restarts after a fault; try again shortly ({fault.advice})")
            return True

    def _retire(self, process: WorkerProcess | None, why: str, probe_s: float | None = None) -> None:
        with self._changed:
            if self._state is State.CLOSED:
                return
            if process is not None and self._process is process:
                self._doomed.append(process)
                self._process = None
            self._probe_due_s = None if probe_s is None else time.monotonic() + probe_s
            self._set(State.OUT_OF_SERVICE, out_of_service(why, probe_s))
        self._log("error", f"ALARM {self.name} is out of service: {why}")

    def _set(self, state: State, sentence: str) -> None:
        self._state = state
        self._sentence = sentence
        self._observer.state(self.settings.runtime.name, state)
        self._changed.notify_all()

    # ---- the keeper's thread

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._doomed or self._state in (State.STARTING, State.RESTARTING, State.CLOSED),
                    self.settings.limits.idle,
                )
                state = self._state
                doomed, self._doomed = self._doomed, []
                if state is State.CLOSED and self._process is not None:
                    doomed.append(self._process)
                    self._process = None
            for process in doomed:
                process.close()
            if state is State.CLOSED:
                return
            if state is State.STARTING:
                if not self._first_start():
                    return
            elif state is State.RESTARTING:
                self._restart()
            elif state is State.READY:
                self._ping()
            elif state is State.OUT_OF_SERVICE:
                self._probe()

    def _first_start(self) -> bool:
        try:
            process, line = self._start()
        except DeviceFault as fault:
            with self._changed:
                self._start_fault = fault
                self._keeper = None
                if self._state is State.STARTING:
                    self._set(State.NEW, "the device worker did not start")
            return False
        self._install(process, line)
        return True

    def _restart(self) -> None:
        refusal = self._history.attempt(time.monotonic())
        if refusal:
            self._retire(None, f"{refusal}; last: {self._sentence}", self._history.policy.probe_s)
            return
        with self._changed:
            if self._changed.wait_for(lambda: self._state is State.CLOSED, self._history.delay_s):
                return
        self._start_again()

    def _probe(self) -> None:
        if self._probe_due_s is not None and time.monotonic() >= self._probe_due_s:
            self._probe_due_s = time.monotonic() + self._history.policy.probe_s
            self._start_again()

    def _start_again(self) -> None:
        try:
            process, line = self._start()
        except DeviceFault as fault:
            self._log("error", f"{self.name}: start number {self._history.in_a_row} failed: {fault}")
            self._observer.fault(fault.action)
            if fault.action is Action.OUT_OF_SERVICE:
                self._retire(None, str(fault))
            else:
                with self._changed:
                    if self._state is State.RESTARTING:
                        self._sentence = f"the device worker does not start again yet ({fault.advice})"
            return
        self._observer.restarted()
        self._install(process, f"{line}; {len(self._graphs)} graphs loaded again")

    def _start(self) -> tuple[WorkerProcess, str]:
        return start(self.settings, self._log, self._ended, list(self._graphs.values()))

    def _install(self, process: WorkerProcess, line: str) -> None:
        with self._changed:
            if self._state is State.CLOSED:
                self._doomed.append(process)
            else:
                self._process = process
                self._set(State.READY, "")
        self._log("info", f"{self.name}: {line}")

    def _ping(self) -> None:
        process = self._process
        if process is not None:
            try:
                process.ping()
            except DeviceFault as fault:
                if self._begin_restart(process, fault):
                    self._observer.fault(fault.action)
                    self._log("error", f"{self.name}: {fault}")

    # ---- a log pump's thread

    def _ended(self, process: WorkerProcess) -> None:
        """A worker is gone: nobody may be waiting for it, so this is how an idle one is noticed."""
        fault = DeviceFault("worker", 0, Action.RESTART, "the device worker ended")
        if self._begin_restart(process, fault):
            self._log("error", f"{self.name}: worker {process.pid} ended")
