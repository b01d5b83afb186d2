"""All series of the edge work when several processes count into the same files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from voxrepo.metrics.shared import registry_of_all

WORKER = """
import sys
from pathlib import Path
from voxrepo.metrics.shared import count_in_files
count_in_files(Path(sys.argv[1]), int(sys.argv[2]))
from voxrepo.metrics.accounting import Accountant
from voxrepo.metrics.registry import EdgeMetrics
metrics = EdgeMetrics()
metrics.watch_engine_calls(running=lambda: 2, draining=lambda: 1, waiting=lambda: 5)
metrics.set_device("npu")
metrics.active_streams.labels("en-joe").set(3)
metrics.count_call("en-joe.vocoder", 0.5, 2.0, 1.0)
with Accountant(metrics, lambda name: True).request("en-joe", "grpc_stream") as record:
    record.piece(0.5)
metrics.refresh()
"""


def test_what_two_processes_count_adds_up(tmp_path: Path) -> None:
    for worker in ("0", "1"):
        subprocess.run([sys.executable, "-c", WORKER, str(tmp_path), worker], check=True, timeout=60)
    page = registry_of_all(tmp_path)

    def value(name: str, **labels: str) -> float | None:
        return page.get_sample_value(name, labels)

    assert value("voxrepo_engine_calls") == 4
    assert value("voxrepo_waiting") == 10
    assert value("voxrepo_in_flight") == 0
    assert value("voxrepo_active_streams", model="en-joe") == 6
    assert value("voxrepo_device", device="npu") == 1
    assert value("voxrepo_pieces_total", model="en-joe") == 2
    assert value("voxrepo_engine_seconds_total", model="en-joe.vocoder") == 4
    assert value("voxrepo_engine_own_seconds_total", model="en-joe.vocoder") == 2
    assert value("voxrepo_queue_seconds_count", model="en-joe.vocoder") == 2
