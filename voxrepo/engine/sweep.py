"""Removing what a killed server left behind: processes, shared memory, folders.

A tritonserver that dies by signal can leave stubs that never notice, and shared memory that nobody unlinks. Both
carry the server's own prefix, so they can be told from those of other servers on the machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from voxrepo.engine.workspace import Workspace

SHM_FOLDER = Path("/dev/shm")  # noqa: S108  where Linux keeps POSIX shared memory
REGION_LEAST_AGE_S = 10.0


@dataclass
class Swept:
    """What was found and removed."""

    processes: list[int] = field(default_factory=list)
    shm_regions: list[str] = field(default_factory=list)


def leftover_processes(workspace: Workspace, spare: Set[int] = frozenset()) -> list[psutil.Process]:
    """Processes of this user that run from the workspace or use its shared memory."""
    marks = (str(workspace.path) + "/", workspace.shm_prefix)
    own = psutil.Process()
    spared = {own.pid, *(parent.pid for parent in own.parents()), *spare}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid not in spared and process.uids().real == own.uids().real:
                words = process.cmdline()
                if any(mark in word for word in words for mark in marks):
                    found.append(process)
    return found


def sweep(workspace: Workspace, spare: Set[int] = frozenset()) -> Swept:
    """Kill leftover processes and remove shared memory and the folder.

    Only to be called while holding the server's lock, when no engine of this server may be running.

    Args:
        workspace: of the server.
        spare: processes that may live on.
    """
    swept = Swept()
    processes = leftover_processes(workspace, spare)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
            swept.processes.append(process.pid)
    psutil.wait_procs(processes, timeout=5)
    for region in _shm_regions(workspace):
        with contextlib.suppress(OSError):
            region.unlink()
            swept.shm_regions.append(region.name)
    workspace.remove()
    return swept


def close_to_others(workspace: Workspace) -> None:
    """Let only this user read the engine's shared memory, which holds what clients send and get.

    Its processes make it readable for all, whatever the umask. To be called when all models are loaded: each instance
    makes its region then, and later requests only let it grow.
    """
    for region in _shm_regions(workspace):
        with contextlib.suppress(FileNotFoundError):  # of an instance that has ended meanwhile
            region.chmod(0o600)


def remove_unused_regions(workspace: Workspace, engine_pid: int, least_age_s: float = REGION_LEAST_AGE_S) -> list[str]:
    """Remove shared memory of stubs that have ended while the engine goes on.

    Args:
        workspace: of the server.
        engine_pid: of the engine; it maps the region of each stub that it uses or starts.
        least_age_s: younger regions are left alone, since they may not be mapped yet.

    Returns:
        names of what was removed.
    """
    try:
        engine = psutil.Process(engine_pid)
        maps = [Path(f"/proc/{process.pid}/maps").read_text() for process in (engine, *engine.children())]
    except (OSError, psutil.Error):  # something ends or starts now; the next time will do
        return []
    removed = []
    for region in _shm_regions(workspace):
        with contextlib.suppress(OSError):
            is_old = time.time() - region.stat().st_ctime >= least_age_s
            if is_old and not any(str(region) in text for text in maps):
                region.unlink()
                removed.append(region.name)
    return removed


def _shm_regions(workspace: Workspace) -> list[Path]:
    return list(SHM_FOLDER.glob(f"{workspace.shm_prefix}*")) if SHM_FOLDER.is_dir() else []
