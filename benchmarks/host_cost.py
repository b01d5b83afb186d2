"""What our own path costs on the host per request, with a device that takes no time.

``python -m benchmarks.host_cost [--root .] [--requests 200]``. The default voice is converted to emulated OMs, and its
acoustic stage and vocoder run on the emulator with ``compute: false``: shapes are right, nothing is computed. What is
left is the host's work, told apart by layer in the same run:

* program: reading the request, packing, noise, the length regulator, windows, INT16;
* worker: shared memory and messages between the stub and the device worker;
* runtime: ``om_backend.acl`` and the AscendCL calls in it. Nearly all of it is the emulator's own bookkeeping, so it
  is no figure for an NPU.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "backends" / "ascend_om"))

from om_backend.device.observer import Observer  # noqa: E402
from om_backend.job import Job, Program  # noqa: E402
from om_backend.programs import load_program  # noqa: E402
from om_backend.runtime import Array, RuntimeSettings  # noqa: E402
from om_backend.workers import Workers  # noqa: E402

from tests.e2e.emulated import EmulatedNpu, convert_voice  # noqa: E402
from tests.harness import VOICE  # noqa: E402
from voxrepo.repository.layout import Layout  # noqa: E402
from voxrepo.repository.voice import read_voice  # noqa: E402
from voxrepo_contract.errors import VoxrepoError  # noqa: E402

IDS = 96
FRAMES = 240
HOTTEST = 15


@dataclass
class Clocks(Observer):
    """Seconds by layer, of all calls so far.

    Attributes:
        graph_s: in graph runs, as the stage program sees them.
        runtime_s: in the runtime, as the worker measured it.
        calls: runs.
    """

    graph_s: float = 0.0
    runtime_s: float = 0.0
    calls: int = 0

    def run(self, graph: str, device_s: float) -> None:
        """See :class:`Observer`."""
        self.runtime_s += device_s
        self.calls += 1

    def watch(self, graph: Any) -> None:
        """Measure every run of ``graph``."""
        inner = graph.run

        def run(feeds: Mapping[str, Any]) -> dict[str, Any]:
            start = time.perf_counter()
            outputs: dict[str, Any] = inner(feeds)
            self.graph_s += time.perf_counter() - start
            return outputs

        graph.run = run


def fail(error: VoxrepoError) -> None:
    """A benchmark has no use for a failed request."""
    raise error


def acoustic_job() -> Job:
    """One sentence of 96 ids."""
    inputs: dict[str, Array] = {
        "phoneme_ids": np.ones((1, IDS), np.int64),
        "segment_lengths": np.full((1, 1), IDS, np.int32),
        "pause_ms": np.zeros((1, 1), np.int32),
        "speed": np.ones((1, 1), np.float32),
        "speaker_id": np.zeros((1, 1), np.int64),
        "seed": np.zeros((1, 1), np.int64),
    }
    return Job(inputs, {}, lambda outputs: None, fail)


def vocoder_job(channels: int) -> Job:
    """One sentence of 240 frames, 2.8 s of audio."""
    inputs: dict[str, Array] = {
        "features": np.zeros((1, FRAMES, channels), np.float32),
        "frame_lengths": np.full((1, 1), FRAMES, np.int32),
        "pause_ms": np.zeros((1, 1), np.int32),
    }
    return Job(inputs, {}, lambda outputs: None, fail)


def start(version_dir: Path, npu: EmulatedNpu, clocks: Clocks) -> tuple[Program, Workers]:
    """The stage program, warm, on a device that takes no time."""
    npu.folder.mkdir()
    npu.write_settings(compute=False)
    environment = {
        **os.environ,
        "VOXREPO_DEVICE": "emulator",
        "VOXREPO_EMULATOR_DIR": str(REPOSITORY / "emulator"),
        "VOXREPO_EMULATOR_SETTINGS": str(npu.settings_file),
        "VOXREPO_WORKER_PYTHON": sys.executable,
    }
    workers = Workers("emulator", 0, 30_000, lambda level, line: None, clocks, environment)
    settings = RuntimeSettings(
        mode="emulator", worker=workers.get, loaded=lambda file, where, graph: clocks.watch(graph)
    )
    try:
        program = load_program(version_dir, settings, None)
        program.warm_up()
    except BaseException:
        workers.close()
        raise
    return program, workers


def measure(
    stage: str, version_dir: Path, make: Callable[[], Job], requests: int, scratch: Path
) -> tuple[dict[str, float], cProfile.Profile]:
    """Microseconds per request by layer, and the profile of the stub's side."""
    npu, clocks = EmulatedNpu(scratch / stage), Clocks()
    program, workers = start(version_dir, npu, clocks)
    profile = cProfile.Profile()
    try:
        clocks.graph_s = clocks.runtime_s = 0.0
        clocks.calls = 0
        begin = time.perf_counter()
        for _ in range(requests):
            program.run([make()])
        total_s = time.perf_counter() - begin
        graph_s, runtime_s, calls = clocks.graph_s, clocks.runtime_s, clocks.calls
        profile.enable()
        for _ in range(requests):
            program.run([make()])
        profile.disable()
    finally:
        workers.close()
    seconds = {
        "total": total_s,
        "program": total_s - graph_s,
        "worker": graph_s - runtime_s,
        "runtime": runtime_s,
    }
    return {**{name: value / requests * 1e6 for name, value in seconds.items()}, "calls": calls / requests}, profile


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="root with the voice en-joe")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="print figures only")
    options = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory(dir=options.root) as folder:
        scratch = Path(folder)
        layout = Layout.of(convert_voice(options.root, scratch / "root"))
        spec = read_voice(layout, VOICE)
        rows: dict[str, dict[str, float]] = {}
        for stage, make in (("acoustic", acoustic_job), ("vocoder", lambda: vocoder_job(192))):
            version_dir = layout.version_dir(spec.stage_models()[stage], spec.versions[stage])
            rows[stage], profile = measure(stage, version_dir, make, options.requests, scratch)
            if not options.json:
                console.rule(f"{stage}: where the stub's time goes")
                statistics = pstats.Stats(profile, stream=sys.stdout)
                statistics.strip_dirs().sort_stats("tottime").print_stats(HOTTEST)
    if options.json:
        print(json.dumps(rows))
        return
    table = Table(title=f"host cost of one request in us, device time zero ({IDS} ids, {FRAMES} frames)")
    columns = ("total", "program", "worker", "runtime", "calls")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    for stage, row in rows.items():
        table.add_row(
            stage, *(f"{row[column]:.1f}" if column == "calls" else f"{row[column]:.0f}" for column in columns)
        )
    console.print(table)


if __name__ == "__main__":
    main()
