"""The supervisor's own series. It serves no page: it writes them to a file, which the edge's page shows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from voxrepo_contract.yamlfile import write_text_atomically

FILE_NAME = "supervisor.prom"
"""Beside the edge's table."""


def supervision_text(*, engine_restarts: int, engine_recycles: int, stub_restarts: int, memory_bytes: int) -> str:
    """Series in Prometheus' text format.

    Args:
        engine_restarts: after an end or a hang.
        engine_recycles: fresh starts because of the engine's memory.
        stub_restarts: stubs that died and were replaced.
        memory_bytes: held by the engine and its stubs, shared pages counted once.
    """
    restarts = CounterMetricFamily(
        "voxrepo_engine_restarts",
        "Starts of the engine after the first, by reason: ended (or hung), memory (recycled, no request lost).",
        labels=["reason"],
    )
    restarts.add_metric(["ended"], engine_restarts)
    restarts.add_metric(["memory"], engine_recycles)
    stubs = CounterMetricFamily(
        "voxrepo_stub_restarts", "Stubs of the engine that died and were replaced.", value=stub_restarts
    )
    memory = GaugeMetricFamily(
        "voxrepo_engine_memory_bytes",
        "Memory of the engine and its stubs; pages that several share count once.",
        value=memory_bytes,
    )
    return families_text([restarts, stubs, memory])


def families_text(families: Sequence[Metric]) -> str:
    """Series in Prometheus' text format."""
    # families, not metrics: nothing is kept between two calls, nor in files where the environment asks for that
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return generate_latest(registry).decode()


class _Families(Collector):
    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def write_supervision(file: Path, text: str) -> None:
    """Replace the file in one step.

    Raises:
        OSError: it cannot be written.
    """
    write_text_atomically(file, text)


def read_supervision(file: Path, fresh_s: float | None = None) -> bytes:
    """What the supervisor has written; nothing if it has not.

    Args:
        file: that it writes.
        fresh_s: age beyond which it counts as not written; None for any.
    """
    try:
        if fresh_s is not None and time.time() - file.stat().st_mtime > fresh_s:
            return b""
        return file.read_bytes()
    except OSError:
        return b""
