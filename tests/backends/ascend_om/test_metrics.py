from __future__ import annotations

import types
from typing import Any, ClassVar

from om_backend.device.description import DeviceMemory, MemoryNeed
from om_backend.device.faults import Action
from om_backend.device.observer import State
from om_backend.metrics import FAMILIES, DeviceMetrics


class Metric:
    def __init__(self, name: str, labels: dict[str, str]) -> None:
        self.name, self.labels, self.value, self.calls = name, labels, 0.0, 0

    def increment(self, value: float) -> None:
        assert value >= 0
        self.value += value
        self.calls += 1

    def set(self, value: float) -> None:
        self.value = value


class Engine:
    """What the engine's utilities offer for metrics, and what it would show."""

    def __init__(self) -> None:
        engine = self
        self.metrics: list[Metric] = []
        self.families: dict[str, str] = {}

        class MetricFamily:
            COUNTER: ClassVar = "counter"
            GAUGE: ClassVar = "gauge"

            def __init__(self, name: str, description: str, kind: str) -> None:
                assert name not in engine.families, "registered twice"
                engine.families[name] = kind
                self._name = name

            def Metric(self, labels: dict[str, str]) -> Metric:
                engine.metrics.append(Metric(self._name, labels))
                return engine.metrics[-1]

        self.utils = types.SimpleNamespace(MetricFamily=MetricFamily)

    def read(self) -> dict[tuple[str, str], float]:
        own = ("model", "version", "instance")
        return {
            (m.name, ",".join(f"{k}={v}" for k, v in sorted(m.labels.items()) if k not in own)): m.value
            for m in self.metrics
        }


def device_metrics(utils: Any) -> DeviceMetrics:
    return DeviceMetrics(utils, {"model": "joe.vocoder", "version": "2", "instance": "joe.vocoder_0_1"})


def test_events_are_summed_up_and_handed_on_at_once():
    engine = Engine()
    metrics = device_metrics(engine.utils)
    for _ in range(100):
        metrics.run("decoder.om", 0.25)
    metrics.fault(Action.RESTART)
    metrics.restarted()
    metrics.state("acl", State.RESTARTING)
    metrics.rejected("silent")
    assert engine.metrics == [], "a call into the engine for each event is too dear"
    metrics.flush()
    assert engine.read() == {
        ("voxrepo_device_runs_total", "graph=decoder.om"): 100,
        ("voxrepo_device_run_seconds_total", "graph=decoder.om"): 25,
        ("voxrepo_device_faults_total", "action=restart"): 1,
        ("voxrepo_device_worker_restarts_total", ""): 1,
        ("voxrepo_device_up", "runtime=acl"): 0,
        ("voxrepo_rejected_results_total", "reason=silent"): 1,
    }
    assert all(metric.calls <= 1 for metric in engine.metrics)
    metrics.run("decoder.om", 1)
    metrics.state("acl", State.READY)
    metrics.flush()
    assert engine.read()["voxrepo_device_runs_total", "graph=decoder.om"] == 101
    assert engine.read()["voxrepo_device_up", "runtime=acl"] == 1


def test_memory_is_told_by_kind_and_by_device():
    engine = Engine()
    metrics = device_metrics(engine.utils)
    metrics.graph_loaded("decoder.om", "acl on npu device 1", MemoryNeed(30, 20, 10))
    metrics.graph_loaded("front.onnx", "onnxruntime on the CPU, 2 threads", None)
    metrics.device_memory(1, DeviceMemory(free_bytes=5, total_bytes=9))
    metrics.flush()
    assert engine.read() == {
        ("voxrepo_device_graph_info", "graph=decoder.om,where=acl on npu device 1"): 1,
        ("voxrepo_device_graph_info", "graph=front.onnx,where=onnxruntime on the CPU, 2 threads"): 1,
        ("voxrepo_device_graph_memory_bytes", "graph=decoder.om,kind=weights"): 30,
        ("voxrepo_device_graph_memory_bytes", "graph=decoder.om,kind=work"): 20,
        ("voxrepo_device_graph_memory_bytes", "graph=decoder.om,kind=buffers"): 10,
        ("voxrepo_device_free_bytes", "device=1"): 5,
        ("voxrepo_device_total_bytes", "device=1"): 9,
    }
    assert {metric.labels["instance"] for metric in engine.metrics} == {"joe.vocoder_0_1"}


def test_kinds_and_names_follow_prometheus():
    assert all((kind == "counter") is name.endswith("_total") for name, (kind, _) in FAMILIES.items())


def test_an_engine_without_metrics_is_no_problem():
    metrics = device_metrics(types.SimpleNamespace())
    for number in range(1000):
        metrics.run(f"{number}.om", 1)
        metrics.state("acl", State.READY)
        metrics.flush()
    assert not metrics._counts
    assert not metrics._gauges
    metrics.close()
