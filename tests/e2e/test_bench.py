"""`voxrepo bench stream` against the real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import RunningServer, voxrepo

from .calls import SENTENCES

pytestmark = pytest.mark.e2e


def test_measures_the_streams_of_a_real_server(server: RunningServer, tmp_path: Path):
    (tmp_path / "texts").write_text("\n".join(SENTENCES[:2]), "utf-8")
    result = voxrepo(
        *("bench", "stream", "--url", f"grpc://{server.grpc_url}", "--texts", str(tmp_path / "texts")),
        *("--streams", "1,2", "--rounds", "2", "--duration-s", "4", "--warmup-s", "1", "--json"),
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert 0 < told["alone"]["first_piece_by_whole_answer"] < 1
    assert [load["streams"] for load in told["loads"]] == [1, 2]
    for load in told["loads"]:
        assert load["finished"] > 0
        assert load["failed"] == {}
        assert load["pieces"] > load["finished"]
        assert load["audio_s_per_s"] > 1
        assert load["first_piece_ms"]["p50"] < load["total_ms"]["p50"]
