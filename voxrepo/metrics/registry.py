"""The Prometheus series of the edge, in a registry of their own.

All of them work in prometheus_client's multi-process mode, in which a page adds up what several edge processes counted:
gauges say how they are added, and none is a function called at the scrape, which another process may answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

DEVICES = ("cpu", "npu", "emulator")
DURATION_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
FIRST_PIECE_BUCKETS_S = (0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 2.0, 5.0, 10.0)
GAP_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 10.0)
WAIT_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REAL_TIME_BUCKETS = (0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0)


class EdgeMetrics:
    """All series of one edge process. ``model`` is a voice's stream or a model as clients call it, unless said else.

    Attributes:
        requests: finished requests by model, protocol, outcome, status code, arm and versions of the stages.
        duration: seconds from the request's arrival to its answer, by model and arm.
        rejected: requests refused, by model and reason.
        in_flight: requests whose callers wait.
        draining: engine calls whose callers are gone.
        engine_calls: inference calls running in the engine.
        waiting: calls in line for the engine.
        queue: seconds that calls waited in line, by model of the engine.
        engine_seconds: seconds that calls spent in the engine, by model of the engine.
        engine_own_seconds: the part of them that was not shared with other calls of the model.
        active_streams: streams that are being served, by model.
        first_piece: seconds from a stream's arrival to its first piece, by model and arm.
        piece_gap: seconds between the pieces of a stream, by model.
        pieces: pieces sent, by model.
        underruns: pieces later than the end of the audio sent before them, by model.
        real_time_factor: seconds of a request per second of its audio, by model and arm.
        audio_seconds: audio handed out, by model.
        text_chars: characters of the texts spoken, by model.
        dropped_chars: characters of them that were not spoken, by model and reason.
        device: 1 for what graphs for an NPU run on, 0 for everything else.
        engine_metrics_up: 1 if the engine's own metrics could be read at the last scrape.
        edge_workers: 1, added up to the number of edge processes that run.
        rollout_weight: percent of a voice's requests that an arm gets by its weight, by voice and arm.
        arm_ready: 1 for arms that are served beside their voice, by voice and arm.
        copies: requests spoken again by another arm, by voice, that arm and outcome; no requests of clients.
        copies_dropped: those that were to be copied and were not, by voice and reason.
        observations_dropped: what of observed requests was not written down, by kind.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.requests = self._counter(
            "voxrepo_requests_total",
            "Finished inference requests; each is counted once.",
            "model",
            "protocol",
            "outcome",
            "code",
            "arm",
            "versions",
        )
        self.duration = self._histogram(
            "voxrepo_request_duration_seconds",
            "Seconds from the arrival of a request to its answer.",
            DURATION_BUCKETS_S,
            "arm",
        )
        self.rejected = self._counter(
            "voxrepo_rejected_total", "Requests that were refused for want of capacity or service.", "model", "reason"
        )
        self.in_flight = self._gauge("voxrepo_in_flight", "Inference requests whose callers wait.")
        self.draining = self._gauge(
            "voxrepo_draining", "Engine calls that still run although their callers left or timed out."
        )
        self.engine_calls = self._gauge("voxrepo_engine_calls", "Inference calls running in the engine.")
        self.waiting = self._gauge("voxrepo_waiting", "Calls waiting at the edge for a place in the engine.")
        self.queue = self._histogram(
            "voxrepo_queue_seconds", "Seconds that a call waited at the edge for a place in the engine.", WAIT_BUCKETS_S
        )
        self.engine_seconds = self._counter(
            "voxrepo_engine_seconds_total", "Seconds that calls spent in the engine.", "model"
        )
        self.engine_own_seconds = self._counter(
            "voxrepo_engine_own_seconds_total",
            "Seconds in which the model had calls in the engine: its rate of growth is the model's utilisation.",
            "model",
        )
        self.active_streams = self._gauge("voxrepo_active_streams", "Streams that are being served.", "model")
        self.first_piece = self._histogram(
            "voxrepo_first_piece_seconds",
            "Seconds from the arrival of a stream's request to its first piece.",
            FIRST_PIECE_BUCKETS_S,
            "arm",
        )
        self.piece_gap = self._histogram(
            "voxrepo_piece_gap_seconds", "Seconds from one piece of a stream to the next.", GAP_BUCKETS_S
        )
        self.pieces = self._counter("voxrepo_pieces_total", "Pieces of audio sent.", "model")
        self.underruns = self._counter(
            "voxrepo_underruns_total", "Pieces sent after the audio before them would have been played.", "model"
        )
        self.real_time_factor = self._histogram(
            "voxrepo_real_time_factor_ratio", "Seconds of a request per second of its audio.", REAL_TIME_BUCKETS, "arm"
        )
        self.audio_seconds = self._counter("voxrepo_audio_seconds_total", "Seconds of audio answered.", "model")
        self.text_chars = self._counter("voxrepo_text_chars_total", "Characters of text answered.", "model")
        self.dropped_chars = self._counter(
            "voxrepo_dropped_characters_total",
            "Characters of answered texts that were not spoken.",
            "model",
            "reason",
        )
        self.device = Gauge(
            "voxrepo_device",
            "1 for what graphs with device: npu run on (npu or emulator; cpu: they are refused).",
            ["device"],
            registry=self.registry,
            multiprocess_mode="livemax",
        )
        self.engine_metrics_up = Gauge(
            "voxrepo_engine_metrics_up",
            "1 if the engine's metrics could be read at this scrape.",
            registry=self.registry,
            multiprocess_mode="livemostrecent",
        )
        self.edge_workers = self._gauge("voxrepo_edge_workers", "Edge processes that run.")
        self.edge_workers.set(1)
        self.rollout_weight = self._newest(
            "voxrepo_rollout_weight", "Percent of a voice's requests that an arm gets by its weight."
        )
        self.arm_ready = self._newest("voxrepo_arm_ready", "1 for arms that are served beside their voice.")
        self.copies = self._counter(
            "voxrepo_copies_total",
            "Requests spoken again by another arm for comparison; no requests of clients.",
            "voice",
            "arm",
            "outcome",
        )
        self.copies_dropped = self._counter(
            "voxrepo_shadow_dropped_total",
            "Requests that were to be copied to another arm and were not.",
            "voice",
            "reason",
        )
        self.observations_dropped = self._counter(
            "voxrepo_observations_dropped_total",
            "What of observed requests was not written down: request, measures, file, pair.",
            "kind",
        )
        self._shown_arms: set[tuple[str, str]] = set()

        self._watched: tuple[tuple[Gauge, Callable[[], float]], ...] = ()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="livesum")

    def _newest(self, name: str, text: str) -> Gauge:
        labels = ["voice", "arm"]
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="livemostrecent")

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, ["model", *labels], registry=self.registry, buckets=buckets)

    def count_call(self, model: str, waited_s: float, inside_s: float, own_s: float) -> None:
        """Count an inference call that ended.

        Args:
            model: of the engine.
            waited_s: seconds in line.
            inside_s: seconds in the engine.
            own_s: the part of them that was not shared with other calls of the model.
        """
        self.queue.labels(model).observe(waited_s)
        self.engine_seconds.labels(model).inc(inside_s)
        self.engine_own_seconds.labels(model).inc(own_s)

    def watch_engine_calls(
        self, *, running: Callable[[], float], draining: Callable[[], float], waiting: Callable[[], float]
    ) -> None:
        """Let :meth:`refresh` read these gauges from their owner instead of setting them per call."""
        self._watched = ((self.engine_calls, running), (self.draining, draining), (self.waiting, waiting))

    def refresh(self) -> None:
        """Set the gauges that have an owner; to be called before a scrape, and from time to time for other workers'."""
        for gauge, read in self._watched:
            gauge.set(read())

    def set_device(self, device: str) -> None:
        """Say what graphs with ``device: npu`` run on."""
        for name in DEVICES:
            self.device.labels(device=name).set(name == device)

    def show_arms(self, weights: Mapping[tuple[str, str], float], ready: Collection[tuple[str, str]]) -> None:
        """Say what rollouts do now; arms of before are set to 0.

        Args:
            weights: percent by voice and arm.
            ready: voices and arms that are served.
        """
        self._shown_arms |= {*weights, *ready}
        for voice, arm in self._shown_arms:
            self.rollout_weight.labels(voice, arm).set(weights.get((voice, arm), 0.0))
            self.arm_ready.labels(voice, arm).set((voice, arm) in ready)

    def render(self) -> bytes:
        """The series in Prometheus' text format."""
        return generate_latest(self.registry)
