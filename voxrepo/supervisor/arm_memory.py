"""Whether there is room for another version of a stage beside the one that serves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from voxrepo.repository.arms import CheckedArm
from voxrepo.repository.check import CheckedVoice
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import Unavailable
from voxrepo_contract.names import stage_model_name

MIB = 1024 * 1024

SIZE_FACTOR = 2.0
"""Memory of an instance per byte of its files, where nothing is known of one that runs: weights once as they are read
and once as the runtime lays them out."""
BASE_BYTES = 60 * MIB
"""Of an instance's process itself: Python, numpy and a runtime, without pages that processes share."""
RESERVE_BYTES = 64 * MIB
"""Stays free: what requests in flight may take."""

_CGROUP_V2 = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory.current"),
    Path("/sys/fs/cgroup/memory.stat"),
)
_CGROUP_V1 = (
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    Path("/sys/fs/cgroup/memory/memory.stat"),
)
_RECLAIMABLE = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Memory:
    """Attributes:
    free_bytes: that the machine, the container and the engine's own limit leave.
    held_bytes: by the stubs of a version of a model; 0 if that is not known.
    """

    free_bytes: Callable[[], int]
    held_bytes: Callable[[str, int], int]


def free_bytes() -> int:
    """Memory that a new process could take on this machine, or in this container if that is less."""
    free = int(psutil.virtual_memory().available)
    for limit_file, usage_file, statistics_file in (_CGROUP_V2, _CGROUP_V1):
        with suppress(OSError, ValueError):  # there is no such file, or no limit: "max"
            left = int(limit_file.read_text(encoding="ascii")) - int(usage_file.read_text(encoding="ascii"))
            found = _RECLAIMABLE.findall(statistics_file.read_text(encoding="ascii"))
            free = min(free, left + max(map(int, found), default=0))
    return max(free, 0)


def needed_bytes(files_bytes: int, instances: int, served_bytes: int = 0, served_files_bytes: int = 0) -> int:
    """Pure: memory of a version that is to be loaded.

    Args:
        files_bytes: of the version.
        instances: that it will have.
        served_bytes: that the instances of the version in service hold; 0 if it is not known.
        served_files_bytes: of that version.
    """
    if served_bytes > 0:
        growth = files_bytes / served_files_bytes if served_files_bytes > 0 else 1.0
        return int(served_bytes * max(growth, 1.0))
    return int(instances * (BASE_BYTES + SIZE_FACTOR * files_bytes))


def check_memory(
    layout: Layout, voice: CheckedVoice, arm: CheckedArm, stages: Sequence[str], memory: Memory, instances: int = 1
) -> None:
    """Refuse an arm for which there is no room.

    Graphs on an NPU are left out: what its memory holds only the device says, when they are loaded.

    Args:
        layout: of the root.
        voice: as it is served.
        arm: to be loaded.
        stages: that have to be loaded for it.
        memory: what there is.
        instances: of a stage about which nothing is measured.

    Raises:
        Unavailable: with the numbers.
    """
    needed: dict[str, int] = {}
    for stage in stages:
        if any(graph.device == "npu" for graph in arm.stages[stage].graphs.values()):
            continue
        model, served, new = stage_model_name(voice.spec.voice, stage), voice.spec.versions[stage], arm.versions[stage]
        needed[f"{stage} version {new}"] = needed_bytes(
            _size_bytes(layout.version_dir(model, new)),
            instances,
            memory.held_bytes(model, served),
            _size_bytes(layout.version_dir(model, served)),
        )
    total, free = sum(needed.values()), memory.free_bytes()
    if total + RESERVE_BYTES > free:
        parts = ", ".join(f"{what} about {number / MIB:.0f} MiB" for what, number in needed.items())
        raise Unavailable(
            f"the memory does not suffice: {parts}, {RESERVE_BYTES / MIB:.0f} MiB are to stay free, and "
            f"{free / MIB:.0f} MiB are left. With --resource-preserving the versions in service are unloaded first"
        )


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
