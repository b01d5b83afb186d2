"""How many instances and threads the stages of a voice get on a CPU. Pure functions.

Measured (``benchmarks/unary.py``): on a CPU larger batches do not pay, so the cores are filled by parallel calls.
The acoustic stage and the vocoder take turns within one request and overlap between requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from voxrepo.repository.voice import StageSettings

THREADS_PER_INSTANCE = 2
"""Threads beyond two gain little on graphs of this size, and one leaves a lone request half as fast."""


@dataclass(frozen=True)
class Parallelism:
    """Instances of a stage and threads of each."""

    instances: int
    threads: int


def plan_cpu(stage: str, settings: StageSettings, cores: int) -> Parallelism:
    """Resolve ``auto`` in a stage's settings for a machine with ``cores`` usable cores."""
    if settings.threads != "auto":
        threads = settings.threads
    else:
        threads = 1 if stage == "text_frontend" else min(THREADS_PER_INSTANCE, cores)
    if settings.instances != "auto":
        instances = settings.instances
    else:
        instances = max(1, cores // 8) if stage == "text_frontend" else max(1, cores // threads)
    return Parallelism(instances, threads)
