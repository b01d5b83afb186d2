"""The device workers of one model instance: one process per runtime, all graphs of the version in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from om_backend.choice import WORKER_RUNTIMES
from om_backend.device.client import DeviceWorker
from om_backend.device.observer import Observer, State
from om_backend.device.policy import RestartPolicy
from om_backend.device.process import Log
from om_backend.device.settings import (
    MARGIN_S,
    Limits,
    Mode,
    WorkerSettings,
    emulator_folder,
    load_lock,
    worker_environment,
    worker_python,
)


class Workers:
    """Makes workers when a graph asks for one.

    Args:
        mode: what the server was started for.
        device_id: of this instance.
        watchdog_ms: longest run on the device.
        log: for their logs.
        observer: for metrics.
        environment: of this process.
        policy: of restarts.
        threads: of graphs that a worker runs on the CPU.
    """

    def __init__(
        self,
        mode: Mode,
        device_id: int,
        watchdog_ms: int,
        log: Log,
        observer: Observer | None = None,
        environment: Mapping[str, str] = os.environ,
        policy: RestartPolicy | None = None,
        threads: int = 1,
    ) -> None:
        self._mode = mode
        self._device_id = device_id
        self._watchdog_ms = watchdog_ms
        self._log = log
        self._observer = observer
        self._environment = environment
        self._policy = policy
        self._threads = threads
        self._workers: dict[tuple[str, str], DeviceWorker] = {}

    def get(self, runtime: str, device: str) -> DeviceWorker:
        """The worker for ``runtime`` on ``device`` (``npu`` or ``cpu``); it starts with its first graph.

        Raises:
            ConfigError: the environment does not say how to start one.
        """
        key = (runtime, device)
        if key not in self._workers:
            self._workers[key] = DeviceWorker(self._settings(runtime, device), self._log, self._policy, self._observer)
        return self._workers[key]

    @property
    def all(self) -> list[DeviceWorker]:
        """Those made so far."""
        return list(self._workers.values())

    @property
    def are_ready(self) -> bool:
        """Whether none of them is down; true if there are none."""
        return all(worker.state is State.READY for worker in self._workers.values())

    def close(self) -> None:
        """End them. Safe to call twice."""
        for worker in self._workers.values():
            worker.close()

    def _settings(self, runtime: str, device: str) -> WorkerSettings:
        mode: Mode = self._mode if device == "npu" else "cpu"
        limits = replace(Limits(), run=self._watchdog_ms / 1000 + MARGIN_S)
        return WorkerSettings(
            python=worker_python(self._environment),
            mode=mode,
            runtime=WORKER_RUNTIMES[runtime],
            device_id=self._device_id,
            options={"watchdog_ms": str(self._watchdog_ms), "device": device, "threads": str(self._threads)},
            path=(emulator_folder(self._environment),) if mode == "emulator" else (),
            environment=worker_environment(mode, self._environment),
            limits=limits,
            load_lock=load_lock(self._device_id, self._environment) if device == "npu" else None,
        )
