from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from voxrepo.metrics.registry import EdgeMetrics
from voxrepo.metrics.rollouts import rollouts_text
from voxrepo.metrics.supervision import supervision_text

MONITORING = Path(__file__).parents[2] / "docker/monitoring"


def known_series() -> set[str]:
    names = set()
    for family in EdgeMetrics().registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}.get(family.type, [""])
        names |= {family.name + suffix for suffix in suffixes}
    of_files = rollouts_text([], {}, {("v", "done"): 1}, 0) + supervision_text(
        engine_restarts=0, engine_recycles=0, stub_restarts=0, memory_bytes=0
    )
    for family in text_string_to_metric_families(of_files):
        names.add(family.name + ("_total" if family.type == "counter" else ""))
    return names


def expressions() -> list[str]:
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))
    board = json.loads((MONITORING / "grafana/dashboards/voxrepo-rollouts.json").read_text(encoding="utf-8"))
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return alerts + panels + [board["templating"]["list"][0]["definition"]]


def test_alerts_and_panels_name_series_that_there_are():
    named = {name for text in expressions() for name in re.findall(r"voxrepo_\w+", text)}
    assert len(named) > 8
    assert named - known_series() == set()


def test_there_are_alerts_for_a_rollback_and_a_failing_gate():
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))
    names = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert {"VoxrepoRolledBack", "VoxrepoGateFailing"} <= names


def test_panels_do_not_lie_over_one_another():
    board = json.loads((MONITORING / "grafana/dashboards/voxrepo-rollouts.json").read_text(encoding="utf-8"))
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
