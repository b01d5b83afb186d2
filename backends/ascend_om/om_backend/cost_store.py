"""Measured call costs, kept in files: all instances of a version on one machine use the same ones.

Instances that measured for themselves, side by side, kept different batch sizes; their answers then differed in the
last bits, and a repeated request was not equal to its first answer. So one instance measures while the others wait,
and a later start finds the result. The files lie in the server's state folder and not in the version directory: they
are facts about this machine, and a version directory that changes is loaded again by the engine.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from om_backend.runtime import RuntimeSettings
from voxrepo_contract import environment as variables

SCHEMA = 1

Seconds = dict[str, float]
"""Seconds of a call by the name of its size."""


@dataclass(frozen=True)
class CostStore:
    """Where costs are kept.

    Attributes:
        folder: of the files; ``None`` keeps nothing, every call of :meth:`recall` measures.
        setting: what besides the graph and the machine changes costs, e.g. the number of threads.
    """

    folder: Path | None = None
    setting: str = ""

    @staticmethod
    def of_environment(settings: RuntimeSettings) -> CostStore:
        """The store that the server names in the environment, for graphs that run under these settings."""
        folder = os.environ.get(variables.COSTS_DIR)
        return CostStore(Path(folder) if folder else None, cost_setting(settings))

    def recall(self, graph_sha256: str, measure: Callable[[], Seconds]) -> Seconds:
        """Costs of a graph: as kept, or measured now and kept.

        Raises:
            OSError: the folder cannot be written. The caller must then use sizes that need no measurement, or
                instances would differ.
        """
        if self.folder is None:
            return measure()
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{self._key(graph_sha256)}.json"
        # one lock for all graphs: two measurements side by side would disturb each other
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = _read(file)
            if kept is not None:
                return kept
            seconds = measure()
            _write(file, seconds)
            return seconds

    def _key(self, graph_sha256: str) -> str:
        place = json.dumps([SCHEMA, graph_sha256, self.setting, _processor()])
        return hashlib.sha256(place.encode()).hexdigest()[:32]


def cost_setting(settings: RuntimeSettings) -> str:
    """What changes the cost of a call besides the graph and the machine, as a key for kept costs.

    The emulator may be told how fast to be, so its settings count with it.
    """
    setting = f"{settings.threads} threads"
    if settings.mode == "cpu":
        return setting
    told = os.environ.get("VOXREPO_EMULATOR_SETTINGS", "") if settings.mode == "emulator" else ""
    try:
        digest = hashlib.sha256(Path(told).read_bytes()).hexdigest() if told else ""
    except OSError:
        digest = ""
    return f"{setting}, {settings.mode} {settings.runtime or ''} {digest}"


def _read(file: Path) -> Seconds | None:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(value, Mapping) or not value:
        return None
    good = all(isinstance(seconds, float) and seconds > 0 for seconds in value.values())
    return dict(value) if good else None


def _write(file: Path, seconds: Seconds) -> None:
    part = file.with_suffix(f".{os.getpid()}")
    try:
        part.write_text(json.dumps(seconds), encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _processor() -> str:
    """Model of the processor and number of its cores that are usable here."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model} {len(os.sched_getaffinity(0))}"
