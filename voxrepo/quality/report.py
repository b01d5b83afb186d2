"""What a quality report shows beside the judgement: plots, and pairs of audio to listen to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voxrepo.quality.judgement import Judgement
from voxrepo.quality.offline import Audio
from voxrepo.quality.speaking import Spoken

SAMPLES = 6


@dataclass(frozen=True)
class Sample:
    """A text by both sides.

    Attributes:
        number: of the text, from 0.
        text: that is said; may be empty.
        why: it was chosen.
        reference: INT16 [N].
        candidate: INT16 [M], free-running.
        fixed: INT16 [N], with the reference's noise and durations; None where that is the same, or has no sense.
    """

    number: int
    text: str
    why: str
    reference: Audio
    candidate: Audio
    fixed: Audio | None


@dataclass(frozen=True)
class QualityReport:
    """A judgement with samples, and the rate of their audio in Hz."""

    judgement: Judgement
    samples: tuple[Sample, ...]
    sample_rate_hz: int

    @property
    def title(self) -> str:
        """What is compared."""
        judgement = self.judgement
        pairs = [
            f"{judgement.voice}.{stage}@{judgement.reference[stage]} and @{judgement.candidate[stage]}"
            for stage in differing_stages(judgement)
        ]
        return f"Quality of {', '.join(pairs)}"


def differing_stages(judgement: Judgement) -> list[str]:
    """Stages of which the versions differ; those that were compared with themselves if none do."""
    stages = [stage for stage, name in judgement.reference.items() if judgement.candidate[stage] != name]
    return stages or [cost.stage for cost in judgement.costs] or [judgement.difference]


def choose_samples(judgement: Judgement, spoken: Sequence[Spoken], count: int = SAMPLES) -> tuple[Sample, ...]:
    """Up to half of ``count`` that differ most, then the first ones.

    What differs most: the greatest spectral distance, frame by frame where that was measured.

    Args:
        judgement: of the versions.
        spoken: audio of each of its rows.
        count: at most.
    """
    said = [number for number, each in enumerate(spoken) if each.candidate is not None]

    def distance(number: int) -> float:
        values = judgement.rows[number].values
        return values.get("fixed_mcd_db", values.get("mcd_db", 0.0))

    far = [number for number in sorted(said, key=distance, reverse=True) if distance(number) > 0][: count // 2]
    first = [number for number in said if number not in far][: count - len(far)]
    return tuple(
        _sample(number, spoken[number], why)
        for numbers, why in ((far, "differs most"), (first, "among the first"))
        for number in numbers
    )


def _sample(number: int, spoken: Spoken, why: str) -> Sample:
    assert spoken.candidate is not None
    fixed = None if spoken.fixed is spoken.candidate else spoken.fixed
    return Sample(number, spoken.text, why, spoken.reference, spoken.candidate, fixed)
