"""NVIDIA's own load tool runs against the server as it is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.harness import VOICE, RunningServer

pytestmark = pytest.mark.e2e

TOOL = Path(__file__).parents[2] / ".cache" / "perf_analyzer" / "perf_analyzer"


@pytest.mark.skipif(not TOOL.exists(), reason="perf_analyzer is not there; `make test` fetches it")
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_perf_analyzer_measures_a_voice(server: RunningServer, tmp_path: Path, protocol: str) -> None:
    data = tmp_path / "texts.json"
    data.write_text(json.dumps({"data": [{"text": ["Good morning."]}, {"text": ["See you soon."]}]}))
    table = tmp_path / "table.csv"
    url = server.grpc_url if protocol == "grpc" else server.http_url
    result = subprocess.run(
        [
            *(str(TOOL), "-m", VOICE, "-i", protocol, "-u", url, "--input-data", str(data), "-f", str(table)),
            *("--concurrency-range", "2", "--measurement-mode", "count_windows", "--measurement-request-count", "10"),
            *("--stability-percentage", "999", "--max-trials", "3"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LD_LIBRARY_PATH": str(TOOL.parent)},
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    header, row = table.read_text().splitlines()[:2]
    measured = dict(zip(header.split(","), row.split(","), strict=True))
    assert float(measured["Inferences/Second"]) > 0.5
