"""What the doctor says."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was looked at, e.g. ``driver``.
        status: ``ok``; ``warning``: it runs, but look at it; ``problem``: it will not run.
        text: what was found, a sentence.
        advice: what to do, "" if nothing.
    """

    check: str
    status: Status
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, advice: str = "") -> Finding:
    """It runs, but somebody should look."""
    return Finding(check, "warning", text, advice)


def problem(check: str, text: str, advice: str = "") -> Finding:
    """It will not run."""
    return Finding(check, "problem", text, advice)


@dataclass(frozen=True)
class GraphPlace:
    """Where a graph would run.

    Attributes:
        model: its model.
        version: its version.
        graph: its name in the stage, ``model`` for a model of one graph.
        file: its file.
        place: ``cpu``, ``npu``, ``emulator``, or ``nowhere`` if it is refused.
        reason: why it is refused, else "".
    """

    model: str
    version: int
    graph: str
    file: str
    place: Literal["cpu", "npu", "emulator", "nowhere"]
    reason: str = ""


@dataclass
class Report:
    """All findings.

    Attributes:
        device: what the server would be started for.
        findings: in the order of the checks.
        graphs: where each graph of the repository would run.
    """

    device: str
    findings: list[Finding] = field(default_factory=list)
    graphs: list[GraphPlace] = field(default_factory=list)

    @property
    def problems(self) -> int:
        """Number of problems."""
        return sum(finding.status == "problem" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return sum(finding.status == "warning" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"problems": self.problems, "warnings": self.warnings, **asdict(self)}
