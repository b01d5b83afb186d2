"""What a device does, as Prometheus series in the engine's own metrics.

A call into the engine costs a round trip between processes, so events are summed up here and handed on by
:meth:`DeviceMetrics.flush`, which the model calls between requests.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from om_backend.device.description import DeviceMemory, MemoryNeed
from om_backend.device.faults import Action
from om_backend.device.observer import Observer, State

FAMILIES = {
    "voxrepo_device_graph_memory_bytes": ("gauge", "Device memory of a loaded graph by kind"),
    "voxrepo_device_graph_info": ("gauge", "1 for each loaded graph: what runs it and where"),
    "voxrepo_device_free_bytes": ("gauge", "Free memory of the device as its worker sees it"),
    "voxrepo_device_total_bytes": ("gauge", "Memory of the device"),
    "voxrepo_device_up": ("gauge", "1 while the device worker takes work, else 0"),
    "voxrepo_device_worker_restarts_total": ("counter", "Times that a device worker was started again"),
    "voxrepo_device_faults_total": ("counter", "Failed device calls by what they asked for"),
    "voxrepo_device_runs_total": ("counter", "Good runs of a graph on a device"),
    "voxrepo_device_run_seconds_total": ("counter", "Time of good runs as the device runtime saw it"),
    "voxrepo_rejected_results_total": ("counter", "Results not sent: not finite or silent"),
}

Key = tuple[str, tuple[tuple[str, str], ...]]


class DeviceMetrics(Observer):
    """Series of one model instance.

    Args:
        utils: Triton's ``triton_python_backend_utils``; nothing is exported where it has no metrics.
        labels: of all series: model, version, instance.
    """

    def __init__(self, utils: Any, labels: Mapping[str, str]) -> None:
        self._maker: Any = getattr(utils, "MetricFamily", None)
        self._labels = dict(labels)
        self._families: dict[str, Any] = {}
        self._series: dict[Key, Any] = {}
        self._lock = threading.Lock()
        self._counts: Counter[Key] = Counter()
        self._gauges: dict[Key, float] = {}

    def graph_loaded(self, graph: str, where: str, memory: MemoryNeed | None) -> None:
        """A graph was loaded.

        Args:
            graph: its file name.
            where: runtime and device.
            memory: on a device.
        """
        self._set("voxrepo_device_graph_info", 1, graph=graph, where=where)
        if memory is not None:
            for kind in ("weights", "work", "buffers"):
                size = getattr(memory, f"{kind}_bytes")
                self._set("voxrepo_device_graph_memory_bytes", size, graph=graph, kind=kind)

    def device_memory(self, device_id: int, memory: DeviceMemory) -> None:
        """Memory of the device now."""
        self._set("voxrepo_device_free_bytes", memory.free_bytes, device=str(device_id))
        self._set("voxrepo_device_total_bytes", memory.total_bytes, device=str(device_id))

    def restarted(self) -> None:
        """See :class:`Observer`."""
        self._add("voxrepo_device_worker_restarts_total", 1)

    def fault(self, action: Action) -> None:
        """See :class:`Observer`."""
        self._add("voxrepo_device_faults_total", 1, action=action.value)

    def run(self, graph: str, device_s: float) -> None:
        """See :class:`Observer`."""
        self._add("voxrepo_device_runs_total", 1, graph=graph)
        self._add("voxrepo_device_run_seconds_total", device_s, graph=graph)

    def state(self, runtime: str, state: State) -> None:
        """See :class:`Observer`."""
        self._set("voxrepo_device_up", 1 if state is State.READY else 0, runtime=runtime)

    def rejected(self, reason: str) -> None:
        """A result was not sent."""
        self._add("voxrepo_rejected_results_total", 1, reason=reason)

    def flush(self) -> None:
        """Hand what has come together on to the engine."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            gauges, self._gauges = self._gauges, {}
        if self._maker is None:
            return
        for key, value in counts.items():
            self._metric(key).increment(value)
        for key, number in gauges.items():
            self._metric(key).set(number)

    def close(self) -> None:
        """Take the series out of the engine's metrics."""
        self._series.clear()
        self._families.clear()

    def _add(self, name: str, value: float, **labels: str) -> None:
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += value  # type: ignore[assignment]

    def _set(self, name: str, value: float, **labels: str) -> None:
        with self._lock:
            self._gauges[name, tuple(sorted(labels.items()))] = value

    def _metric(self, key: Key) -> Any:
        if key not in self._series:
            name, labels = key
            if name not in self._families:
                kind, text = FAMILIES[name]
                self._families[name] = self._maker(name=name, description=text, kind=getattr(self._maker, kind.upper()))
            self._series[key] = self._families[name].Metric(labels={**self._labels, **dict(labels)})
        return self._series[key]
