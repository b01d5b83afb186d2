"""What a rollout's report says: the document, and what plots and pages need beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from voxrepo.rollout.gates import GateVerdict, Judgement
from voxrepo.rollout.observed import Total
from voxrepo.rollout.overview import EventView
from voxrepo.rollout.plan import Versions
from voxrepo.rollout.route import PolicyName
from voxrepo.rollout.state import Phase
from voxrepo.rollout.statistics import Values
from voxrepo_contract.yamlfile import StrictModel

FORMAT: Literal["voxrepo-rollout-report-1"] = "voxrepo-rollout-report-1"
CONFIDENCE = 0.95


class Measured(StrictModel):
    """A number with its interval of :data:`CONFIDENCE`; None where nothing is known, or an end is unbounded."""

    value: float | None
    low: float | None
    high: float | None
    samples: int


class ArmReport(StrictModel):
    """One arm over the whole rollout.

    Attributes:
        name: of the arm.
        versions: of all stages.
        requests: of clients by outcome; complete.
        copies: made for comparison, by outcome; complete.
        audio_s: length of all audio for clients.
        metrics: by name, from the observations that are kept. A shadow arm's are those of its copies.

    All of it ends with the promotion: what the stable arm serves then is another thing.
    """

    name: str
    versions: Versions
    requests: dict[str, int]
    copies: dict[str, int]
    audio_s: float
    metrics: dict[str, Measured]


class Verdicts(StrictModel):
    """Verdicts by which something was decided.

    Attributes:
        at: when.
        what: was decided, and why.
        requests: of each arm, by which it was.
        pairs: of each arm.
        verdicts: of all gates.
    """

    at: float
    what: str
    requests: dict[str, int]
    pairs: dict[str, int]
    verdicts: list[GateVerdict]


class Share(StrictModel):
    """Percent of the requests by arm, the stable one included, from a moment on; empty while none are assigned."""

    at: float
    phase: str
    weights: dict[str, float]


class Sample(StrictModel):
    """A pair of audio to listen to.

    Attributes:
        id: of the request.
        at: when.
        arm: that is compared with the stable one.
        why: it was chosen.
        text: that is spoken.
        seed: of both.
        speed: of both.
        speaker: of both.
        measures: of the pair.
        files: by arm, relative to the folder of the rollouts.
    """

    id: str
    at: float
    arm: str
    why: str
    text: str
    seed: int
    speed: float
    speaker: str
    measures: dict[str, float]
    files: dict[str, str]


class Report(StrictModel):
    """Everything in the report but the plots and the audio. All times are seconds since the epoch.

    Attributes:
        format: of this document.
        made_at: when.
        made_by: program and version.
        id: of the rollout.
        voice: that it concerned.
        policy: kind.
        phase: where it stands or ended.
        reason: why.
        promoted: the arm that becomes, or became, stable.
        created_at: when it was asked for.
        ended_at: when it ended; None if it has not.
        spec: as it was given, YAML.
        stable: versions before.
        arms: the stable one first.
        judgement: the controller's newest; None after the decision to promote or to take back.
        decisions: verdicts at each step.
        shares: over time.
        after_promotion: requests by outcome that the voice served with its new versions, from the first whole minute
            on; not among those of the arms.
        pairs: compared, by arm.
        faults: pairs of which one half has no audio: why, and how often.
        samples: pairs with audio.
        events: all of them.
    """

    format: Literal["voxrepo-rollout-report-1"] = FORMAT
    made_at: float
    made_by: str
    id: str
    voice: str
    policy: PolicyName
    phase: Phase
    reason: str
    promoted: str | None
    created_at: float
    ended_at: float | None
    spec: str
    stable: Versions
    arms: list[ArmReport]
    judgement: Judgement | None
    decisions: list[Verdicts]
    shares: list[Share]
    after_promotion: dict[str, int] = Field(default_factory=dict)
    pairs: dict[str, int]
    faults: dict[str, int] = Field(default_factory=dict)
    samples: list[Sample]
    events: list[EventView]


@dataclass(frozen=True)
class Series:
    """Requests of one arm over time, for plots: float64 [N] each, NaN where not known.

    Attributes:
        at: seconds since the epoch.
        latency_s: of requests that were answered.
        real_time_factor: likewise.
        engine_real_time_factor: likewise.
        level_dbfs: of their audio.
        silence_ratio: of their audio.
    """

    at: Values
    latency_s: Values
    real_time_factor: Values
    engine_real_time_factor: Values
    level_dbfs: Values
    silence_ratio: Values


@dataclass(frozen=True)
class MadeReport:
    """A report with what only plots and pages need.

    Attributes:
        report: the document.
        folder: of the rollouts, to which the samples' files are relative.
        series: requests by arm.
        pair_measures: by arm and metric, float64 [P].
        totals: requests by minute.
    """

    report: Report
    folder: Path
    series: Mapping[str, Series]
    pair_measures: Mapping[str, Mapping[str, Values]]
    totals: list[Total]
