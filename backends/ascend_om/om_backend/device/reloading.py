"""Graphs that outlive their worker process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from om_backend.device.description import GraphDescription
from om_backend.device.faults import Action, DeviceFault
from om_backend.device.process import WorkerProcess


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


def reload(process: WorkerProcess, graph: LoadedFile) -> None:
    """Load a graph into a new worker.

    Raises:
        DeviceFault: it cannot be loaded, or is not the file that it was.
    """
    if _stamp_or_none(graph.file) != graph.stamp:
        raise DeviceFault(
            "load", 0, Action.REFUSE, f"{graph.file} was changed after it was loaded; unload and load the model"
        )
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
