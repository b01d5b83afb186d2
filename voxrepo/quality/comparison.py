"""How two utterances of the same text differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voxrepo.quality.cepstrum import mel_cepstral_distance_db
from voxrepo.quality.levels import Levels, measure_levels


@dataclass(frozen=True)
class Comparison:
    """A candidate's utterance against the stable one.

    Attributes:
        duration_ratio: candidate / stable; None if the stable one has no length.
        level_difference_db: candidate - stable.
        mel_cepstral_distance_db: along the best alignment; None if either is silent.
    """

    duration_ratio: float | None
    level_difference_db: float
    mel_cepstral_distance_db: float | None


def compare(
    candidate: npt.NDArray[np.int16],
    stable: npt.NDArray[np.int16],
    sample_rate_hz: int,
    levels: tuple[Levels, Levels] | None = None,
) -> Comparison:
    """Compare two utterances of one text; 10 s take some 100 ms.

    Args:
        candidate: INT16 [N].
        stable: INT16 [M] of the same rate.
        sample_rate_hz: of both.
        levels: of both, if they are known.
    """
    mine, theirs = levels or (measure_levels(candidate, sample_rate_hz), measure_levels(stable, sample_rate_hz))
    return Comparison(
        duration_ratio=mine.duration_s / theirs.duration_s if theirs.duration_s else None,
        level_difference_db=mine.level_dbfs - theirs.level_dbfs,
        mel_cepstral_distance_db=mel_cepstral_distance_db(candidate, stable, sample_rate_hz),
    )
