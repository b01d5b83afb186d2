"""What comes of a judgement: metrics, gates, rows of each text, costs, as one document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from voxrepo.quality.gates import Difference, GateResult, Verdict
from voxrepo_contract.yamlfile import StrictModel

FORMAT: Literal["voxrepo-quality-1"] = "voxrepo-quality-1"


class TextRow(StrictModel):
    """What was measured of one text; see :class:`voxrepo.quality.measuring.Row`."""

    text: str
    values: dict[str, float]
    reference: dict[str, float]
    candidate: dict[str, float]
    fault: str = ""


class StageCost(StrictModel):
    """What a stage costs on this machine's CPU, in one thread.

    Attributes:
        stage: of the voice.
        reference_bytes: of its graphs.
        candidate_bytes: likewise.
        reference_cpu_s: in its graphs, for all texts; None if not measured.
        candidate_cpu_s: likewise.
        time_ratio: candidate / reference, taken in turns in one process.
    """

    stage: str
    reference_bytes: int
    candidate_bytes: int
    reference_cpu_s: float | None = None
    candidate_cpu_s: float | None = None
    time_ratio: float | None = None


class Judgement(StrictModel):
    """What was found. All but the times in ``costs`` follows from the files and the texts.

    Attributes:
        format: of this document.
        made_by: program and version.
        voice: whose stages.
        reference: version by stage.
        candidate: likewise; a version that is not in the repository yet is named ``candidate``.
        difference: the first stage in a request's way in which they differ.
        texts: where the texts are from.
        verdict: the answer.
        gates: each gate's.
        metrics: over all texts; those that were not measured are missing.
        missing: why a metric is missing.
        reference_values: means of what is measured of the reference alone.
        candidate_values: likewise.
        rows: of each text.
        costs: of the stages that differ.
        notes: sentences to be read.
    """

    format: Literal["voxrepo-quality-1"] = FORMAT
    made_by: str
    voice: str
    reference: dict[str, str]
    candidate: dict[str, str]
    difference: Difference
    texts: str
    verdict: Verdict
    gates: list[GateResult]
    metrics: dict[str, float]
    missing: dict[str, str] = Field(default_factory=dict)
    reference_values: dict[str, float] = Field(default_factory=dict)
    candidate_values: dict[str, float] = Field(default_factory=dict)
    rows: list[TextRow]
    costs: list[StageCost] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether every gate was measured and passed."""
        return self.verdict == "accepted"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it was not accepted: a sentence for each fault and each gate that did not pass."""
        faults = [f"a text is not said: {row.text!r}: {row.fault}" for row in self.rows if row.fault]
        order = {"fail": 0, "inconclusive": 1}
        gates = sorted((gate for gate in self.gates if gate.outcome != "pass"), key=lambda gate: order[gate.outcome])
        return (*faults, *(gate.reason for gate in gates))

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        if self.accepted:
            return f"accepted: all {len(self.gates)} gates pass"
        return f"{self.verdict}: {'; '.join(self.reasons)}"

    def table(self) -> dict[str, Any]:
        """Plain values for ``quality`` in ``stage.yaml``."""
        return {
            "verdict": self.verdict,
            "against": dict(self.reference),
            "texts": self.texts,
            "metrics": dict(self.metrics),
            "gates": {gate.metric: f"{gate.outcome} ({gate.limit})" for gate in self.gates},
            **({"missing": dict(self.missing)} if self.missing else {}),
            "costs": {cost.stage: cost.model_dump(exclude={"stage"}, exclude_none=True) for cost in self.costs},
        }
