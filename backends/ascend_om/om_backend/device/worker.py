"""The device worker: a process that owns one device context and runs what the stub asks for, one request at a time.

Started by :mod:`om_backend.device.process` through ``bootstrap.py``. Says hello before anything is imported that might
be missing, so that the stub can say what is. Ends when the stub closes its end of the socket.
"""

from __future__ import annotations

import importlib
import logging
import os
import platform
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from om_backend.device import protocol
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.memory import Area, Window
from om_backend.device.protocol import PeerGone, ProtocolError
from om_backend.device.turns import load_turn

if TYPE_CHECKING:
    from om_backend.device.interface import DeviceRuntime, LoadedGraph

Answer = dict[str, Any]

OK = 0
BROKEN_CONVERSATION = 4
"""Exit codes."""


def serve(sock: socket.socket) -> int:
    """Serve the stub until it closes; returns the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    return Worker(sock).serve()


class Worker:
    """State of the worker: the opened device, its graphs, the two areas of shared memory."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._runtime: DeviceRuntime | None = None
        self._graphs: dict[int, LoadedGraph] = {}
        self._area = Area("voxrepo-answers", 0)
        self._window = Window(0)
        self._load_lock: Path | None = None
        self._load_wait_s = 0.0
        self._closing = False
        self._run_graph: Callable[..., Answer] = _not_open
        self._handlers: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "open": self._open,
            "load": self._load,
            "run": self._run,
            "memory": self._memory,
            "unload": self._unload,
            "trim": self._trim,
            "ping": self._ping,
            "close": self._close,
        }

    def serve(self) -> int:
        """Answer until ``close`` or the end of the connection."""
        try:
            protocol.send(
                self._sock,
                {
                    "hello": protocol.PROTOCOL_VERSION,
                    "python": platform.python_version(),
                    "executable": sys.executable,
                    "pid": os.getpid(),
                },
            )
            while not self._closing:
                request, fds = protocol.receive(self._sock)
                self._answer(request, fds)
        except PeerGone:
            return OK
        except ProtocolError as error:
            sys.stderr.write(f"the stub sent what is not a message, the worker ends: {error}\n")
            return BROKEN_CONVERSATION
        finally:
            self._close_all()
        return OK

    def _answer(self, request: Mapping[str, Any], fds: list[int]) -> None:
        number = request.get("id")
        operation = request.get("op")
        handler = self._handlers.get(str(operation))
        if handler is None:
            protocol.close_all(fds)
            raise ProtocolError(f"there is no operation {operation!r}")
        self._window.follow(request.get("segments", ()), request.get("drop", ()), fds)
        try:
            answer = {"id": number, "ok": True, **handler(request)}
        except DeviceFault as fault:
            answer = {"id": number, "fault": _as_json(fault)}
        except ProtocolError:
            raise
        except Exception as error:
            traceback.print_exc()
            # nothing is known of the state that an unforeseen error leaves, except before there is any
            action = Action.RESTART if operation == "run" else Action.REFUSE
            unforeseen = DeviceFault(
                f"worker.{operation}", 0, action, f"the device runtime failed: {type(error).__name__}: {error}"
            )
            answer = {"id": number, "fault": _as_json(unforeseen)}
        news = self._area.announce()
        try:
            protocol.send(self._sock, {**answer, "segments": news.segments, "drop": news.drop}, news.fds)
        finally:
            protocol.close_all(news.fds)

    def _open(self, request: Mapping[str, Any]) -> Answer:
        limit = int(request["limit_bytes"])
        self._area = Area("voxrepo-answers", limit)
        self._window = Window(limit)
        lock = _path(request["load_lock"])
        self._load_lock = Path(lock) if lock else None
        self._load_wait_s = float(request["load_wait_s"])
        runtime = str(request["runtime"])
        _need_numpy()
        # not before: it imports numpy
        from om_backend.device.running import run_graph

        self._run_graph = run_graph
        if runtime == "acl":
            from om_backend.device.guard import check_acl

            check_acl(str(request["mode"]))
        module, _, function = str(request["entry"]).partition(":")
        try:
            open_device = getattr(importlib.import_module(module), function)
        except ImportError as error:
            raise DeviceFault(
                f"import {module}",
                0,
                Action.REFUSE,
                f"the runtime {runtime!r} cannot be used by {sys.executable}: {error}",
            ) from error
        self._runtime = open_device(int(request["device_id"]), dict(request["options"]))
        return {"library": str(getattr(self._runtime, "library", ""))}

    def _load(self, request: Mapping[str, Any]) -> Answer:
        runtime = self._opened()
        with load_turn(self._load_lock, self._load_wait_s):
            graph = runtime.load(Path(_path(request["file"])), dict(request["options"]))
        self._graphs[int(request["graph"])] = graph
        return {"description": graph.description.to_json()}

    def _run(self, request: Mapping[str, Any]) -> Answer:
        graph = self._graphs.get(int(request["graph"]))
        if graph is None:
            raise DeviceFault("run", 0, Action.RELOAD, f"graph {request['graph']} is not loaded in this worker")
        return self._run_graph(graph, request["tensors"], self._window, self._area)

    def _memory(self, request: Mapping[str, Any]) -> Answer:
        memory = self._opened().memory()
        return {"free_bytes": memory.free_bytes, "total_bytes": memory.total_bytes}

    def _unload(self, request: Mapping[str, Any]) -> Answer:
        graph = self._graphs.pop(int(request["graph"]), None)
        if graph is not None:
            graph.close()
        return {}

    def _trim(self, request: Mapping[str, Any]) -> Answer:
        self._area.trim()
        return {}

    def _ping(self, request: Mapping[str, Any]) -> Answer:
        return {}

    def _close(self, request: Mapping[str, Any]) -> Answer:
        self._close_all()
        self._closing = True
        return {}

    def _opened(self) -> DeviceRuntime:
        if self._runtime is None:
            raise ProtocolError("the device is not open")
        return self._runtime

    def _close_all(self) -> None:
        graphs, self._graphs = list(self._graphs.values()), {}
        runtime, self._runtime = self._runtime, None
        for thing in (*graphs, runtime):
            if thing is None:
                continue
            try:
                thing.close()
            except Exception:
                traceback.print_exc()


def _path(text: str) -> str:
    """A path that the stub sent: its Python may take paths for ASCII with escapes, this one takes them for UTF-8."""
    return os.fsdecode(os.fsencode(text))


def _not_open(*_: object) -> Answer:
    raise ProtocolError("the device is not open")


def _need_numpy() -> None:
    try:
        importlib.import_module("numpy")
    except ImportError as error:
        raise DeviceFault(
            "import numpy",
            0,
            Action.REFUSE,
            f"numpy cannot be imported by the worker's Python {sys.executable} {platform.python_version()} ({error}); "
            "install it there or set VOXREPO_WORKER_PYTHON to another Python",
        ) from error


def _as_json(fault: DeviceFault) -> dict[str, Any]:
    return {
        "call": fault.call,
        "code": fault.code,
        "code_name": fault.code_name,
        "text": fault.text,
        "action": fault.action.value,
        "advice": fault.advice,
    }
