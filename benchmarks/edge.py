"""What the edge alone costs: the same calls straight at the engine and through the edge, one after the other.

``python -m benchmarks.edge``. The engine is the real tritonserver with an echo voice that costs next to nothing, so
that a difference of a millisecond shows. Direct and edge calls alternate; medians are printed.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from rich.console import Console
from rich.table import Table

from tests.e2e.calls import inputs_for
from tests.edge.harness import EdgeProcess, Engine
from voxrepo.supervisor.ports import free_port

SECONDS_OF_AUDIO = (0.1, 1.0, 3.0, 10.0)
SAMPLE_RATE_HZ = 22_050
CALLS = 400
CLIENTS = 16
BUSY_MS = 10
LOAD_S = 6.0


def all_inputs(text: str) -> list[Any]:
    """Every tensor of a voice, since the engine fills in nothing."""
    tensors = inputs_for(triton, text, seed=1, speed=1.0)
    speaker = triton.InferInput("speaker", [1, 1], "BYTES")
    speaker.set_data_from_numpy(np.array([[b""]], dtype=np.object_))
    return [*tensors, speaker]


def timed_ms(client: Any, tensors: list[Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    client.infer("en-test", tensors)
    return (time.perf_counter() - start) * 1000


def latency_rows(direct: Any, edge: Any) -> list[tuple[str, ...]]:
    """Medians by length of audio."""
    rows: list[tuple[str, ...]] = []
    for seconds in SECONDS_OF_AUDIO:
        tensors = all_inputs(f"samples {round(seconds * SAMPLE_RATE_HZ)}")
        straight, through = [], []
        for _ in range(CALLS):
            straight.append(timed_ms(direct, tensors))
            through.append(timed_ms(edge, tensors))
        a, b = statistics.median(straight), statistics.median(through)
        rows.append((f"{seconds:g} s of audio, 1 client", f"{a:.2f} ms", f"{b:.2f} ms", f"+{b - a:.2f} ms"))
    return rows


def rate(url: str, load_s: float = LOAD_S, headers_of: Callable[[int], dict[str, str]] = lambda index: {}) -> float:
    """Calls per second of 16 closed-loop clients on a model that takes 10 ms.

    Args:
        url: of the gRPC door.
        load_s: how long they call.
        headers_of: what the client of a number sends with each call.
    """
    counts = [0] * CLIENTS
    end = time.monotonic() + load_s

    def loop(index: int) -> None:
        with triton.InferenceServerClient(url) as client:
            tensors = all_inputs(f"sleep {BUSY_MS}")
            while time.monotonic() < end:
                client.infer("en-test", tensors, headers=headers_of(index))
                counts[index] += 1

    threads = [threading.Thread(target=loop, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / load_s


def main() -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory(prefix="vx") as scratch:
        engine = Engine(Path(scratch))
        engine.start(free_port())
        edge = EdgeProcess(engine.target, Path(scratch))
        try:
            with triton.InferenceServerClient(engine.target) as a, triton.InferenceServerClient(edge.grpc) as b:
                rows = latency_rows(a, b)
            straight, through = rate(engine.target), rate(edge.grpc)
        finally:
            edge.stop()
            engine.stop()
    rows.append(
        (
            f"{CLIENTS} clients, {BUSY_MS} ms model",
            f"{straight:.0f} calls/s",
            f"{through:.0f} calls/s",
            f"x {through / straight:.2f}",
        )
    )
    table = Table(title="cost of the edge, echo voice, gRPC")
    for column in ("", "engine directly", "through the edge", "difference"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
