"""One worker process seen from the stub: start, ask, end. Knows nothing of what to do after a fault."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from om_backend.device import protocol
from om_backend.device.description import DeviceMemory, GraphDescription
from om_backend.device.dtypes import DTYPES, name_of
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.interface import Array
from om_backend.device.logpump import LogPump
from om_backend.device.memory import ALIGNMENT, Area, TooLarge, Window
from om_backend.device.protocol import PeerSilent, ProtocolError
from om_backend.device.settings import WorkerSettings

Log = Callable[[str, str], None]
"""Takes a level (``info``, ``warn``, ``error``) and a line."""


class WorkerProcess:
    """A started worker that has said hello.

    Must be made in a thread that lives as long as the worker: the kernel takes the end of the thread that started a
    process for the end of its parent.

    Args:
        settings: what to start.
        log: for what the worker prints.
        at_end: called once, in another thread, when the worker is gone.

    Raises:
        DeviceFault: it did not start; action ``REFUSE``.
    """

    def __init__(self, settings: WorkerSettings, log: Log, at_end: Callable[[WorkerProcess], None]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._number = 0
        self._area = Area("voxrepo-inputs", settings.message_limit_bytes)
        self._window = Window(settings.message_limit_bytes)
        with ExitStack() as on_failure, ExitStack() as handed_over:
            try:
                self._sock, theirs = socket.socketpair()
                on_failure.callback(self._sock.close)
                handed_over.callback(theirs.close)
                read_end, write_end = os.pipe()
                on_failure.callback(os.close, read_end)
                handed_over.callback(os.close, write_end)
                self._process = subprocess.Popen(
                    settings.command(theirs.fileno(), os.getpid()),
                    stdin=subprocess.DEVNULL,
                    stdout=write_end,
                    stderr=write_end,
                    pass_fds=[theirs.fileno()],
                    env=dict(settings.environment),
                )
            except OSError as error:
                raise DeviceFault(
                    "start", 0, Action.REFUSE, f"{settings.python} cannot be started: {error.strerror}"
                ) from error
            on_failure.callback(self._process.wait)
            on_failure.callback(self._process.kill)
            pid = self._process.pid
            self._pump = LogPump(
                read_end, lambda line: log(_level(line), f"worker {pid}: {line}"), lambda: at_end(self)
            )
            on_failure.pop_all()
        try:
            self.hello = self._read_hello()
        except DeviceFault:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def open(self) -> str:
        """Open the device; returns what the runtime says of itself.

        Raises:
            DeviceFault: it cannot be opened.
        """
        settings = self._settings
        answer = self._ask(
            "open",
            settings.limits.open,
            runtime=settings.runtime.name,
            entry=settings.runtime.entry,
            mode=settings.mode,
            device_id=settings.device_id,
            options=dict(settings.options),
            limit_bytes=settings.message_limit_bytes,
            load_lock=str(settings.load_lock or ""),
            load_wait_s=settings.limits.load_wait,
        )
        return str(answer["library"])

    def load(self, graph: int, file: Path, options: Mapping[str, str]) -> GraphDescription:
        """Load a file as graph number ``graph``.

        Raises:
            DeviceFault: it cannot be loaded.
        """
        answer = self._ask("load", self._settings.limits.load, graph=graph, file=str(file), options=dict(options))
        return GraphDescription.from_json(answer["description"])

    def run(self, graph: int, inputs: Sequence[Array]) -> tuple[list[Array], int]:
        """Run a graph.

        Args:
            graph: its number.
            inputs: in the graph's order.

        Returns:
            Fresh arrays, and the microseconds that the runtime took for it.

        Raises:
            DeviceFault: it failed.
        """
        with self._lock:
            try:
                tensors = self._place(inputs)
            except TooLarge as error:
                raise DeviceFault("run", 0, Action.REQUEST, f"the request is too large: {error}") from error
            except OSError as error:
                raise DeviceFault(
                    "run", 0, Action.RETRY, f"no shared memory can be had for the request: {error.strerror}"
                ) from error
            answer = self._ask_locked("run", self._settings.limits.run, graph=graph, tensors=tensors)
            try:
                # copied, since the next run writes to the same place
                return [self._view(tensor).copy() for tensor in answer["tensors"]], int(answer["run_us"])
            except (ProtocolError, LookupError, TypeError, ValueError) as error:
                raise self._lost("run", f"the worker's answer makes no sense: {error}") from error

    def memory(self) -> DeviceMemory:
        """Memory of the device.

        Raises:
            DeviceFault: it does not answer.
        """
        answer = self._ask("memory", self._settings.limits.short)
        return DeviceMemory(answer["free_bytes"], answer["total_bytes"])

    def unload(self, graph: int) -> None:
        """Unload a graph.

        Raises:
            DeviceFault: the worker is gone.
        """
        self._ask("unload", self._settings.limits.short, graph=graph)

    def trim(self) -> None:
        """Give shared memory back on both sides.

        Raises:
            DeviceFault: the worker is gone.
        """
        with self._lock:
            self._area.trim()
            self._ask_locked("trim", self._settings.limits.short)

    def ping(self) -> None:
        """Have an idle worker show that it answers; does nothing while it is asked something else.

        Raises:
            DeviceFault: it does not answer, and was ended.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._ask_locked("ping", self._settings.limits.ping)
            finally:
                self._lock.release()

    def close(self) -> None:
        """Have the worker release the device and end; kill it if it does not. Safe to call twice."""
        end = time.monotonic() + self._settings.limits.close
        if self._process.poll() is None:
            with suppress(DeviceFault):
                self._ask("close", self._settings.limits.close)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(max(end - time.monotonic(), 0.5))
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        # not under another thread's wait for an answer, which ends with the process: the number of a closed socket
        # may go to another file meanwhile
        with self._lock:
            self._sock.close()
            self._area.close()
            self._window.close()
        self._pump.join(1.0)

    def _read_hello(self) -> dict[str, Any]:
        try:
            hello, fds = protocol.receive(self._sock, self._settings.limits.start)
        except ProtocolError as error:
            raise self._lost("start", f"the worker did not start: {error}", Action.REFUSE) from error
        protocol.close_all(fds)
        if hello.get("hello") != protocol.PROTOCOL_VERSION:
            raise DeviceFault(
                "start", 0, Action.REFUSE, f"the worker speaks protocol {hello.get('hello')}, not 1; install it anew"
            )
        return hello

    def _place(self, inputs: Sequence[Array]) -> list[list[Any]]:
        self._area.begin(sum(-(-value.nbytes // ALIGNMENT) * ALIGNMENT for value in inputs))
        tensors: list[list[Any]] = []
        for value in inputs:
            room = self._area.reserve(value.nbytes)
            np.copyto(np.ndarray(value.shape, value.dtype, buffer=room.buffer, offset=room.offset), value)
            tensors.append([room.segment, room.offset, room.size, name_of(value.dtype), value.shape])
        return tensors

    def _view(self, tensor: Sequence[Any]) -> Array:
        segment, offset, size, name, dims = tensor
        dtype = DTYPES[name]
        shape = tuple(dims)
        if any(axis < 0 for axis in shape) or math.prod(shape) * dtype.itemsize != size:
            raise ProtocolError(f"{size} bytes do not hold {name} {list(shape)}")
        return np.ndarray(shape, dtype, buffer=self._window.buffer(segment, offset, size), offset=offset)

    def _ask(self, operation: str, limit_s: float, **values: Any) -> dict[str, Any]:
        with self._lock:
            return self._ask_locked(operation, limit_s, **values)

    def _ask_locked(self, operation: str, limit_s: float, **values: Any) -> dict[str, Any]:
        self._number += 1
        news = self._area.announce()
        header = {"id": self._number, "op": operation, "segments": news.segments, "drop": news.drop, **values}
        try:
            try:
                protocol.send(self._sock, header, news.fds, limit_s)
            finally:
                protocol.close_all(news.fds)
            answer, fds = protocol.receive(self._sock, limit_s)
            self._window.follow(answer.get("segments", ()), answer.get("drop", ()), fds)
            if answer.get("id") != self._number:
                raise ProtocolError(f"answer {answer.get('id')} came for request {self._number}")
            if "fault" in answer:
                raise _fault(answer["fault"])
            return answer
        except PeerSilent as error:
            raise self._hung(operation, limit_s) from error
        except (ProtocolError, OSError, LookupError, TypeError, ValueError) as error:
            raise self._lost(operation, str(error)) from error

    def _hung(self, operation: str, limit_s: float) -> DeviceFault:
        self._process.kill()
        return DeviceFault(
            f"worker.{operation}",
            0,
            Action.RESTART,
            f"the device worker did not answer {operation} within {limit_s:g} s and was ended",
        )

    def _lost(self, operation: str, problem: str, action: Action = Action.RESTART) -> DeviceFault:
        with suppress(subprocess.TimeoutExpired):
            # the socket ends a moment before the process
            self._process.wait(0.5)
        status = self._process.poll()
        if status is None:
            self._process.kill()
            ending = problem
        else:
            self._pump.join(0.5)
            ending = f"the device worker {_ending(status)}"
            if action is Action.REFUSE and self._pump.tail:
                ending += f"; its last words: {self._pump.tail}"
        return DeviceFault(f"worker.{operation}", 0, action, ending, text=problem if status is not None else "")


def _level(line: str) -> str:
    word = line.partition(" ")[0]
    return {"ERROR": "error", "CRITICAL": "error", "WARNING": "warn"}.get(word, "info")


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was ended by {name}"


def _fault(value: Mapping[str, Any]) -> DeviceFault:
    return DeviceFault(
        str(value["call"]),
        int(value["code"]),
        Action(value["action"]),
        str(value["advice"]),
        code_name=str(value["code_name"]),
        text=str(value["text"]),
    )
