"""Counts in files, so that one page shows those of all edge processes and none is lost with its process.

prometheus_client's multi-process mode, with one difference: files are named by the worker's number and not by its
process id. A worker that is started again goes on with the counts of the one before, so there are as many files as
workers however often one is restarted.

The files are mapped into memory, and writing to a mapped file that has no place on a full disk ends a process. Hence
they get their place beforehand.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import prometheus_client.values
from prometheus_client import CollectorRegistry
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.values import MultiProcessValue

from voxrepo_contract.errors import ConfigError

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where prometheus_client looks for its folder."""
LIVE_GAUGES = ("gauge_livesum", "gauge_livemax", "gauge_livemostrecent")
FILE_BYTES = {"counter": 1 << 17, "histogram": 1 << 18, **dict.fromkeys(LIVE_GAUGES, 1 << 16)}
"""Size by the start of the name, which prometheus_client chooses by kind of metric and mode of gauge. 64 KiB, its own
size, hold about 300 series; files that are full are doubled."""


def empty_folder(folder: Path) -> None:
    """Make the folder, without the files of an earlier server.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"cannot be made: {error.strerror}", file=folder) from error


def count_in_files(folder: Path, worker: int) -> None:
    """Let all metrics that this process makes from now on live in files.

    Args:
        folder: shared by all workers of a server.
        worker: number of this one; no other process that runs may have it.

    Raises:
        ConfigError: the files cannot be made.
    """
    try:
        for kind, size_bytes in FILE_BYTES.items():
            file = _file(folder, kind, worker)
            _allocate(file, max(size_bytes, file.stat().st_size if file.exists() else 0))
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=folder) from error
    os.environ[FOLDER_VARIABLE] = str(folder)
    prometheus_client.values.ValueClass = MultiProcessValue(lambda: worker)  # type: ignore[no-untyped-call]


def keep_allocated(folder: Path, worker: int) -> None:
    """Give files that have grown their place on the disk."""
    for kind in FILE_BYTES:
        file = _file(folder, kind, worker)
        try:
            status = file.stat()
        except FileNotFoundError:  # the state folder was cleared away under a running server
            continue
        if status.st_blocks * 512 < status.st_size:
            _allocate(file, status.st_size)


def clear_gauges(folder: Path, worker: int) -> None:
    """Forget what a worker that has ended said of its own state. What it counted stays.

    Set to 0 rather than removed (as prometheus_client does), since a file that is made anew may not fit on the disk.
    """
    for kind in LIVE_GAUGES:
        file = _file(folder, kind, worker)
        if not file.exists() or file.stat().st_size == 0:
            continue
        values = MmapedDict(str(file))  # type: ignore[no-untyped-call]
        try:
            for key, _, _ in list(values.read_all_values()):  # type: ignore[no-untyped-call]
                values.write_value(key, 0.0, 0.0)  # type: ignore[no-untyped-call]
        finally:
            values.close()  # type: ignore[no-untyped-call]


def registry_of_all(folder: Path) -> CollectorRegistry:
    """What all workers counted, to be rendered once."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    return registry


def _file(folder: Path, kind: str, worker: int) -> Path:
    return folder / f"{kind}_{worker}.db"


def _allocate(file: Path, size_bytes: int) -> None:
    with file.open("ab") as stream:
        os.posix_fallocate(stream.fileno(), 0, size_bytes)
