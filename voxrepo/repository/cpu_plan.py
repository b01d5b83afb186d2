"""How many instances and threads the stages of a voice get on a CPU.

Measured (``benchmarks/unary.py``): on a CPU larger batches do not pay, so the cores are filled by parallel calls.
The acoustic stage and the vocoder take turns within one request and overlap between requests.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from voxrepo.repository.voice import StageSettings

THREADS_PER_INSTANCE = 1
"""As many instances as cores, of one thread each: under load 16 clients get 0.99 of what the bare stages can do on all
cores, where instances of two threads get 0.81, since threads of one call wait for each other. A lone request takes
longer than with two threads; a server that answers one caller at a time sets ``instances: 1, threads: 2``."""

ACOUSTIC_THREADS = 2
"""The acoustic stage gets as many instances, but of two threads: a stream's first piece waits for a whole segment of
it, which is most of the way when nobody else is there, while under load it is a quarter of the work. Its second threads
then have the cores that others leave, since waiting threads do not spin."""

OPENING_THREADS = 2
"""Threads of the vocoder for the short window that begins a segment, likewise on the way to a first piece. For all
windows, two threads take 6 to 9 % of what the cores can do for 16 clients; for these alone it does not show."""


@dataclass(frozen=True)
class Parallelism:
    """Instances of a stage and threads of each."""

    instances: int
    threads: int


def plan_cpu(stage: str, settings: StageSettings, cores: int, *, on_npu: bool = False) -> Parallelism:
    """Resolve ``auto`` in a stage's settings for a machine with ``cores`` usable cores.

    Args:
        stage: its name.
        settings: from ``voice.yaml``.
        cores: usable cores of this machine.
        on_npu: whether a graph of the stage runs on an NPU: then an instance for each device, since a device runs
            one call after the other.
    """
    if settings.threads != "auto":
        threads = settings.threads
    elif stage == "acoustic" and not on_npu:
        threads = min(ACOUSTIC_THREADS, cores)
    else:
        threads = THREADS_PER_INSTANCE
    if settings.instances != "auto":
        instances = settings.instances
    elif on_npu:
        instances = max(1, len(settings.device_ids))
    elif stage == "text_frontend":
        instances = max(1, cores // 8)
    else:
        instances = max(1, cores // (THREADS_PER_INSTANCE if settings.threads == "auto" else threads))
    return Parallelism(instances, threads)


def opening_threads(settings: StageSettings, cores: int) -> int:
    """Threads of the vocoder for the windows that begin segments; as many as for others where ``threads`` is given."""
    return min(OPENING_THREADS, cores) if settings.threads == "auto" else settings.threads


def usable_cores(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores that this process may use: those it may run on, or fewer if a container's CPU quota says so."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota_cores(cgroups)
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def cpu_quota_cores(cgroups: Path) -> float | None:
    """CPU quota of this container in cores, ``None`` without one; reads cgroup 2, then cgroup 1."""
    try:
        quota, period = (cgroups / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            quota, period = (
                (cgroups / "cpu" / name).read_text(encoding="ascii").strip()
                for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            )
        except OSError:
            return None
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max": no quota
        return None
    return cores if cores > 0 else None
