"""NVIDIA's own load tool runs against the server as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.perf_analyzer import measure, needs_perf_analyzer
from tests.harness import VOICE, RunningServer

pytestmark = pytest.mark.e2e


@needs_perf_analyzer
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_perf_analyzer_measures_a_voice(server: RunningServer, tmp_path: Path, protocol: str) -> None:
    table = tmp_path / "table.csv"
    url = server.grpc_url if protocol == "grpc" else server.http_url
    texts = ("Good morning.", "See you soon.")
    result = measure(tmp_path, texts, *("-m", VOICE, "-i", protocol, "-u", url, "-f", str(table)))
    assert result.returncode == 0, result.stdout + result.stderr
    header, row = table.read_text().splitlines()[:2]
    measured = dict(zip(header.split(","), row.split(","), strict=True))
    assert float(measured["Inferences/Second"]) > 0.5
