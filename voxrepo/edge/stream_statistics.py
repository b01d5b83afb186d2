"""What this process has streamed, in the form of the statistics extension; the engine knows no streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.validation import VOICE_VERSION
from voxrepo_contract.names import STREAM_SUFFIX


@dataclass
class _Counts:
    succeeded: int = 0
    succeeded_ns: int = 0
    failed: int = 0
    failed_ns: int = 0
    last_ms: int = 0


class StreamStatistics:
    """Counts of streams by voice, since the start of this process."""

    def __init__(self) -> None:
        self._by_voice: dict[str, _Counts] = {}

    @contextmanager
    def counting(self, voice: str) -> Iterator[None]:
        """Count the stream that the block serves; one that is dropped or raises has failed."""
        counts = self._by_voice.setdefault(voice, _Counts())
        started_ns = time.monotonic_ns()
        counts.last_ms = time.time_ns() // 1_000_000
        try:
            yield
        except BaseException:
            counts.failed += 1
            counts.failed_ns += time.monotonic_ns() - started_ns
            raise
        counts.succeeded += 1
        counts.succeeded_ns += time.monotonic_ns() - started_ns

    def of(self, voice: str) -> Any:
        """``ModelStatistics`` of the voice's stream: each stream is one inference that computes from start to end."""
        counts = self._by_voice.get(voice, _Counts())
        statistics = pb.ModelStatistics(
            name=voice + STREAM_SUFFIX,
            version=VOICE_VERSION,
            last_inference=counts.last_ms,
            inference_count=counts.succeeded,
            execution_count=counts.succeeded,
        )
        for name in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
            getattr(statistics.inference_stats, name).count = counts.succeeded
        for name in ("success", "compute_infer"):
            getattr(statistics.inference_stats, name).ns = counts.succeeded_ns
        statistics.inference_stats.fail.count = counts.failed
        statistics.inference_stats.fail.ns = counts.failed_ns
        return statistics
