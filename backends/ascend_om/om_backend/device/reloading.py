"""Graphs that outlive their worker process, and the start of the process that holds them next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from om_backend.device.description import GraphDescription
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.process import Log, WorkerProcess
from om_backend.device.settings import WorkerSettings


@dataclass(frozen=True)
class LoadedFile:
    """A graph that a worker holds, and what its successor must load.

    Attributes:
        number: by which it is run, the same in every worker.
        file: the graph file.
        options: it was loaded with.
        stamp: size, time and number of the file when it was loaded.
        description: what it said of itself.
    """

    number: int
    file: Path
    options: Mapping[str, str]
    stamp: tuple[int, int, int]
    description: GraphDescription


def start(
    settings: WorkerSettings, log: Log, at_end: Callable[[WorkerProcess], None], graphs: Sequence[LoadedFile]
) -> tuple[WorkerProcess, str]:
    """Start a worker, open its device and load graphs; all or nothing.

    Returns:
        The worker, and a line for the log.

    Raises:
        DeviceFault: whatever went wrong. Nothing else leaves this: whoever keeps workers alive must outlive it.
    """
    process: WorkerProcess | None = None
    try:
        process = WorkerProcess(settings, log, at_end)
        library = process.open()
        for graph in graphs:
            reload(process, graph)
    except Exception as error:
        if process is not None:
            process.close()
        if isinstance(error, DeviceFault):
            raise
        problem = f"the device worker cannot be started: {type(error).__name__}: {error}"
        raise DeviceFault("start", 0, Action.RESTART, problem) from error
    hello = process.hello
    line = f"worker {process.pid}, Python {hello.get('python')} ({hello.get('executable')})"
    return process, f"{line}{', ' + library if library else ''}"


def reload(process: WorkerProcess, graph: LoadedFile) -> None:
    """Load a graph into a new worker.

    Raises:
        DeviceFault: it cannot be loaded, or is not the file that it was.
    """
    if _stamp_or_none(graph.file) != graph.stamp:
        raise DeviceFault("load", 0, Action.REFUSE, f"{graph.file} was changed after it was loaded; restart the server")
    description = process.load(graph.number, graph.file, graph.options)
    if (description.kind, description.inputs, description.outputs) != (
        graph.description.kind,
        graph.description.inputs,
        graph.description.outputs,
    ):
        raise DeviceFault("load", 0, Action.REFUSE, f"{graph.file} has other tensors than before")


def stamp_of(file: Path) -> tuple[int, int, int]:
    """Size, time of change and number of a file.

    Raises:
        OSError: it cannot be read.
    """
    facts = file.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


def _stamp_or_none(file: Path) -> tuple[int, int, int] | None:
    try:
        return stamp_of(file)
    except OSError:
        return None
