"""A device runtime for the tests of the worker: real arrays in a real process, and every way to fail.

A graph file is JSON: ``{"factor": 2.0, "outputs": ["y"], "tokens": DIR}``. A graph takes ``x`` FP32 and ``command``
INT64 [1], and returns ``x * factor`` once per output. A command other than 0 makes the run go wrong in one of the ways
below, as often as there are files in ``tokens`` (or always, without it).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from om_backend.device.description import DeviceMemory, GraphDescription, MemoryNeed, TensorInfo
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import PlaceOutput

OK, HANG, DIE, GARBAGE, RAISE, FORGET, STALE, BIG = range(8)
FAULTS = dict(enumerate(Action, start=100))
BY_ACTION = {action: number for number, action in FAULTS.items()}


class TinyGraph:
    def __init__(self, file: Path, device: TinyDevice) -> None:
        content = json.loads(file.read_text("utf-8"))
        if "refuse" in content:
            raise DeviceFault("tiny.load", 500002, Action.REFUSE, content["refuse"], code_name="TINY", text="EE1001")
        if "deadly" in content:
            os.kill(os.getpid(), signal.SIGKILL)
        if "load_s" in content:
            device.note(f"loading {file.name}")
            time.sleep(float(content["load_s"]))
        self.factor = float(content["factor"])
        self.tokens = Path(content["tokens"]) if "tokens" in content else None
        names = content.get("outputs", ["y"])
        self.device = device
        self.closed = False
        self.description = GraphDescription(
            kind="range",
            inputs=(
                TensorInfo("x", "FP32", (-1, -1), ((1, -1), (1, -1))),
                TensorInfo("command", "INT64", (1,), ((1, 1),)),
            ),
            outputs=tuple(TensorInfo(name, "FP32", (-1, -1)) for name in names),
            memory=MemoryNeed(weights_bytes=1000, work_bytes=200, buffers_bytes=30),
        )

    def run(self, inputs: Sequence[Any], place: PlaceOutput) -> None:
        x, command = inputs[0], int(inputs[1][0])
        assert not self.closed
        if command != OK and self._spend():
            self._fail(command, place)
            if command == FORGET:
                return
        for index in range(len(self.description.outputs)):
            np.multiply(x, np.float32(self.factor), out=place(index, x.shape, np.dtype(np.float32)))

    def _spend(self) -> bool:
        if self.tokens is None:
            return True
        for token in sorted(self.tokens.iterdir()):
            token.unlink()
            return True
        return False

    def _fail(self, command: int, place: PlaceOutput) -> None:
        if command == HANG:
            # a C call that neither returns nor can be interrupted would look like this from outside
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
            time.sleep(600)
        elif command == DIE:
            os.kill(os.getpid(), signal.SIGKILL)
        elif command == GARBAGE:
            (argument,) = [text for text in sys.argv if text.startswith("--socket=")]
            os.write(int(argument.partition("=")[2]), b"\xff" * 64)
        elif command == RAISE:
            raise ZeroDivisionError("by nobody")
        elif command == BIG:
            place(0, (1 << 20, 1 << 20), np.dtype(np.float32))
        elif command in FAULTS:
            action = FAULTS[command]
            raise DeviceFault("tiny.run", 507015, action, f"a tiny {action.value}", code_name="TINY", text="/secret")

    def close(self) -> None:
        self.closed = True
        self.device.graphs -= 1


class TinyDevice:
    library = "tiny 1.0"

    def __init__(self, device_id: int, options: Mapping[str, str]) -> None:
        self.device_id = device_id
        self.options = options
        self.graphs = 0
        self.log = options.get("life_log")
        self.note("open")
        print(f"device {device_id} opened with {options.get('greeting', 'nothing')}")
        print("b\u00fc\u4f60", "on standard output", flush=True)

    def note(self, what: str) -> None:
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as stream:
                stream.write(f"{what} {os.getpid()}\n")

    def load(self, file: Path, options: Mapping[str, str]) -> TinyGraph:
        graph = TinyGraph(file, self)
        self.graphs += 1
        self.note(f"load {file.name}")
        return graph

    def memory(self) -> DeviceMemory:
        return DeviceMemory(free_bytes=1 << 30, total_bytes=2 << 30)

    def close(self) -> None:
        self.note("close")


def open_device(device_id: int, options: Mapping[str, str]) -> TinyDevice:
    gate = options.get("gate")
    if gate and Path(gate).exists():
        raise DeviceFault("tiny.open", 507033, Action(Path(gate).read_text().strip()), "the gate is shut")
    return TinyDevice(device_id, options)
