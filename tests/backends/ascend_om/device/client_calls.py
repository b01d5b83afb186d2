"""Calls of a device worker's client, and what tests hear of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from om_backend.device.client import DeviceWorker
from om_backend.device.faults import Action
from om_backend.device.observer import Observer, State
from om_backend.device.settings import Limits

from .tiny_runtime import OK

Make = Callable[..., DeviceWorker]


Write = Callable[..., Path]


QUICK = Limits(start=20, open=20, load=20, run=0.5, short=5, close=2)


IMPATIENT = Limits(start=20, open=20, load=20, run=10, short=5, close=2, ping=0.5, idle=0.05)


class Counts(Observer):
    def __init__(self) -> None:
        self.faults: Counter[Action] = Counter()
        self.restarts = 0
        self.runs = 0
        self.states: list[State] = []

    def restarted(self) -> None:
        self.restarts += 1

    def fault(self, action: Action) -> None:
        self.faults[action] += 1

    def run(self, graph: str, device_s: float) -> None:
        self.runs += 1

    def state(self, runtime: str, state: State) -> None:
        self.states.append(state)


def call(worker: DeviceWorker, graph: int, command: int = OK, value: float = 1.0, size: int = 4) -> Any:
    x = np.full((1, size), value, np.float32)
    outputs = worker.run(graph, [x, np.array([command], np.int64)])
    assert (outputs[0] == x * 2).all()
    return outputs


def wait_for(worker: DeviceWorker, *states: State, timeout_s: float = 15) -> State:
    end = time.monotonic() + timeout_s
    while worker.state not in states and time.monotonic() < end:
        time.sleep(0.01)
    assert worker.state in states
    return worker.state


def worker_pid(worker: DeviceWorker) -> int:
    pid = worker.pid
    assert pid is not None
    return pid
