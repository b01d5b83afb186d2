"""NVIDIA's own load tool, which ``make test`` fetches."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / ".cache" / "perf_analyzer" / "perf_analyzer"
needs_perf_analyzer = pytest.mark.skipif(not TOOL.exists(), reason="perf_analyzer is not there; `make test` fetches it")


def measure(folder: Path, texts: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with two requests at a time for ``texts``; ``arguments`` say of what model and where."""
    data = folder / "texts.json"
    data.write_text(json.dumps({"data": [{"text": [text]} for text in texts]}))
    return subprocess.run(
        [
            *(str(TOOL), *arguments, "--input-data", str(data)),
            *("--concurrency-range", "2", "--measurement-mode", "count_windows", "--measurement-request-count", "10"),
            *("--stability-percentage", "999", "--max-trials", "3"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LD_LIBRARY_PATH": str(TOOL.parent)},
        check=False,
    )
