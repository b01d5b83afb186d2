"""Runs a scenario in a process of its own with the emulator, and reads its report."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.backends.ascend_om.acl import models

ROOT = Path(__file__).parents[4]


@dataclass
class Outcome:
    """What a scenario gave, and what the emulator says of it."""

    result: Any
    violations: list[dict[str, Any]]
    leaks: list[dict[str, Any]]
    end: dict[str, Any]
    stderr: str

    def assert_clean(self) -> None:
        """No misuse, nothing left."""
        assert not self.violations, [f"{item['call']}: {item['sentence']} ({item['site']})" for item in self.violations]
        assert not self.leaks, [f"{item['what']} from {item['site']}" for item in self.leaks]


def run(folder: Path, scenario: str, *args: Any, clean: bool = True, **settings: Any) -> Outcome:
    """Run ``scenario`` of ``scenarios.py``.

    Args:
        folder: for the models and reports.
        scenario: name of the function.
        args: JSON-able arguments for it.
        clean: fail on violations and leaks.
        settings: of the emulator.
    """
    reports = folder / "reports"
    settings_file = folder / "settings.json"
    settings_file.write_text(json.dumps({"soc": models.SOC, "report_dir": str(reports), **settings}))
    environment = {
        **os.environ,
        "VOXREPO_DEVICE": "emulator",
        "VOXREPO_EMULATOR_SETTINGS": str(settings_file),
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in (".", "backends/ascend_om", "emulator")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.ascend_om.acl.emulated", scenario, str(folder), json.dumps(args)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    lines = [json.loads(line) for file in reports.glob("*.jsonl") for line in file.read_text().splitlines()]
    outcome = Outcome(
        result=json.loads(done.stdout.splitlines()[-1]),
        violations=[line for line in lines if line["kind"] == "violation"],
        leaks=[line for line in lines if line["kind"] == "leak"],
        end=next(line for line in lines if line["kind"] == "end"),
        stderr=done.stderr,
    )
    if clean:
        outcome.assert_clean()
    return outcome


def main() -> None:
    """The child's side."""
    scenario, folder, args = sys.argv[1:]
    scenarios = importlib.import_module("tests.backends.ascend_om.acl.scenarios")
    result = getattr(scenarios, scenario)(Path(folder), *json.loads(args))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
