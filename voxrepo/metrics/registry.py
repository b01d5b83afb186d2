"""The Prometheus series of the edge, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

DEVICES = ("cpu", "npu", "emulator")
DURATION_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class EdgeMetrics:
    """All series of one edge process.

    Attributes:
        requests: finished requests by model, protocol, outcome and status code.
        duration: seconds from the request's arrival to its answer, by model.
        in_flight: requests whose callers wait.
        audio_seconds: audio handed out, by model.
        text_chars: characters of the texts spoken, by model.
        dropped_chars: characters of them that were not spoken, by model and reason.
        device: 1 for what graphs for an NPU run on, 0 for everything else.
        engine_metrics_up: 1 if the engine's own metrics could be read at the last scrape.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.requests = Counter(
            "voxrepo_requests_total",
            "Finished inference requests; each is counted once.",
            ["model", "protocol", "outcome", "code"],
            registry=self.registry,
        )
        self.duration = Histogram(
            "voxrepo_request_duration_seconds",
            "Seconds from the arrival of a request to its answer.",
            ["model"],
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self.in_flight = Gauge("voxrepo_in_flight", "Inference requests whose callers wait.", registry=self.registry)
        self.draining = Gauge(
            "voxrepo_draining",
            "Engine calls that still run although their callers left or timed out.",
            registry=self.registry,
        )
        self.engine_calls = Gauge(
            "voxrepo_engine_calls", "Inference calls running in the engine.", registry=self.registry
        )
        self.waiting = Gauge(
            "voxrepo_waiting", "Requests waiting at the edge for a place in the engine.", registry=self.registry
        )
        self.audio_seconds = Counter(
            "voxrepo_audio_seconds_total", "Seconds of audio answered.", ["model"], registry=self.registry
        )
        self.text_chars = Counter(
            "voxrepo_text_chars_total", "Characters of text answered.", ["model"], registry=self.registry
        )
        self.dropped_chars = Counter(
            "voxrepo_dropped_characters_total",
            "Characters of answered texts that were not spoken.",
            ["model", "reason"],
            registry=self.registry,
        )
        self.device = Gauge(
            "voxrepo_device",
            "1 for what graphs with device: npu run on (npu or emulator; cpu: they are refused).",
            ["device"],
            registry=self.registry,
        )
        self.engine_metrics_up = Gauge(
            "voxrepo_engine_metrics_up",
            "1 if the engine's metrics could be read at this scrape.",
            registry=self.registry,
        )

    def watch_engine_calls(
        self, *, running: Callable[[], float], draining: Callable[[], float], waiting: Callable[[], float]
    ) -> None:
        """Read these gauges from their owner at each scrape instead of setting them per call."""
        self.engine_calls.set_function(running)
        self.draining.set_function(draining)
        self.waiting.set_function(waiting)

    def set_device(self, device: str) -> None:
        """Say what graphs with ``device: npu`` run on."""
        for name in DEVICES:
            self.device.labels(device=name).set(name == device)

    def render(self) -> bytes:
        """The series in Prometheus' text format."""
        return generate_latest(self.registry)
