from __future__ import annotations

import os
import time
from pathlib import Path

from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from voxrepo.metrics.exposition import FRESH_S, MetricsPage
from voxrepo.metrics.registry import EdgeMetrics
from voxrepo.metrics.rollouts import rollouts_text
from voxrepo.rollout.gates import GateVerdict, Judgement
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.state import Rollout, RolloutState

SPEC = parse_spec("voice: en-joe\narms: {int8: {vocoder: 2}}\npolicy: {kind: canary, arm: int8}\n")


def series(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def text() -> str:
    rollout = Rollout("r1", SPEC, {"vocoder": 1}, RolloutState(phase="running", step=1))
    judgement = Judgement(
        since=0,
        verdicts=[
            GateVerdict(arm="int8", metric="error_ratio", verdict="pass"),
            GateVerdict(arm="int8", metric="error_ratio", verdict="inconclusive"),
            GateVerdict(arm="int8", metric="silence_ratio", verdict="fail", dry_run=True),
        ],
    )
    return rollouts_text([rollout], {"r1": judgement}, {("zh-baker", "rolled_back"): 2, ("en-joe", "done"): 1}, 3)


def test_state_step_verdicts_and_ends_are_shown() -> None:
    found = series(text())
    assert found["voxrepo_rollout_state", "r1", "running", "en-joe"] == 1
    assert found["voxrepo_rollout_step", "r1", "en-joe"] == 2
    assert found["voxrepo_rollout_verdict", "int8", "false", "error_ratio", "en-joe"] == 0
    assert found["voxrepo_rollout_verdict", "int8", "true", "silence_ratio", "en-joe"] == -1
    assert found["voxrepo_rollbacks_total", "zh-baker"] == 2
    assert found["voxrepo_rollbacks_total", "en-joe"] == 0
    assert found["voxrepo_rollouts_ended_total", "done", "en-joe"] == 1
    assert found["voxrepo_rollout_pairs_dropped_total",] == 3


async def test_the_page_shows_them_while_a_controller_lives(tmp_path: Path) -> None:
    file = tmp_path / "controller.prom"
    file.write_text(text(), encoding="utf-8")

    async def page() -> str:
        shown = MetricsPage(EdgeMetrics(), None, rollouts_file=file)
        async with TestClient(TestServer(shown.application())) as client:
            shown_text: str = await (await client.get("/metrics")).text()
            return shown_text

    names = set(series(await page()))
    assert ("voxrepo_rollout_state", "r1", "running", "en-joe") in names
    old = time.time() - FRESH_S - 1
    os.utime(file, (old, old))
    assert "voxrepo_rollout_state" not in await page()
