"""A server whose graphs run on the emulated NPU, what the emulator says of it, and faults made in it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import VOICE, RunningServer, clone_root, running_server, voxrepo

SOC = "Ascend910B3"


@dataclass(frozen=True)
class EmulatedNpu:
    """Settings of the emulator for one server.

    Attributes:
        folder: holds settings, faults and reports.
    """

    folder: Path

    @property
    def settings_file(self) -> Path:
        return self.folder / "emulator.json"

    def write_settings(self, **changes: Any) -> None:
        settings = {
            "soc": SOC,
            "device_count": 1,
            "device_memory_bytes": 8 << 30,
            "strict": True,
            "report_dir": str(self.folder / "reports"),
            "fault_dir": str(self.folder / "faults"),
            **changes,
        }
        for name in ("reports", "faults"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(json.dumps(settings), encoding="utf-8")

    def inject(self, function: str, code: int, *, count: int = 1, text: str = "", **more: Any) -> Path:
        """Make the next ``count`` calls of an AscendCL function fail."""
        fault = {"function": function, "code": code, "count": count, "text": text, **more}
        return self._drop(fault)

    def inject_condition(self, **condition: Any) -> Path:
        """A lasting condition, e.g. ``device_lost=True``."""
        return self._drop(condition)

    def _drop(self, fault: dict[str, Any]) -> Path:
        name = f"{uuid.uuid4().hex}.json"
        part = self.folder / f"{name}.part"
        part.write_text(json.dumps(fault), encoding="utf-8")
        target = self.folder / "faults" / name
        part.replace(target)
        return target

    def reports(self) -> list[dict[str, Any]]:
        """Everything that emulator processes have written."""
        lines: list[dict[str, Any]] = []
        for file in sorted((self.folder / "reports").iterdir()):
            lines += [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        return lines

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.reports() if line["kind"] == kind]


def convert_voice(root: Path, target_root: Path, *options: str) -> Path:
    """A clone of a root whose voice runs emulated OM files."""
    root = clone_root(root, target_root)
    result = voxrepo("convert", VOICE, "--target", "emulator", "--soc", SOC, "--root", str(root), *options, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return root


@contextmanager
def emulated_server(root: Path, npu: EmulatedNpu, *arguments: str, **options: Any) -> Iterator[RunningServer]:
    """A server with ``--device emulator``."""
    with running_server(
        root, "--device", "emulator", "--emulator-settings", str(npu.settings_file), *arguments, **options
    ) as server:
        yield server
