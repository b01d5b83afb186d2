"""What is measured of two versions, and what each number means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["fixed", "free"]
"""``fixed``: both speak with the same noise and with the reference's durations, so that their samples line up.
``free``: each as it would for a listener."""

Summary = Literal["mean", "worst", "total"]


@dataclass(frozen=True)
class Metric:
    """One number.

    Attributes:
        name: of it.
        side: how the versions speak.
        title: in tables.
        unit: may be empty.
        aim: the value of two equal versions; what is further from it is worse. None where more is always better.
        meaning: a sentence.
    """

    name: str
    side: Side
    title: str
    unit: str
    aim: float | None
    meaning: str


_ALL = (
    Metric(
        "fixed_snr_db", "fixed", "signal to noise", "dB", None,
        "power of the reference's samples over that of the difference; 120 where there is none",
    ),
    Metric(
        "fixed_mcd_db", "fixed", "mel-cepstral distance, frame by frame", "dB", 0.0,
        "how far apart the spectral envelopes are, without alignment",
    ),
    Metric("fixed_pesq", "fixed", "PESQ, wide band", "", None, "ITU-T P.862.2, 1 to 4.64: what is heard of the change"),
    Metric(
        "fixed_pitch_cents", "fixed", "pitch, frame by frame", "cents", 0.0,
        "mean absolute difference of frames that are voiced in both",
    ),
    Metric(
        "fixed_voicing_agreement", "fixed", "voicing agreement", "", None,
        "share of the frames that are voiced in both or in neither",
    ),
    Metric("duration_ratio", "free", "duration ratio", "", 1.0, "length of all texts, candidate / reference"),
    Metric(
        "worst_duration_ratio", "free", "duration ratio, worst text", "", 1.0, "of the text that changed most"
    ),
    Metric(
        "moved_frames_ratio", "free", "frames moved", "", 0.0,
        "frames that phonemes got more or less, over all frames; only where the phonemes are the same",
    ),
    Metric("level_difference_db", "free", "loudness difference", "dB", 0.0, "of the speech, pauses left out"),
    Metric("pitch_difference_cents", "free", "pitch difference", "cents", 0.0, "of the median; 100 are a semitone"),
    Metric("voiced_difference", "free", "voiced share difference", "", 0.0, "of the frames with sound"),
    Metric("clipped_difference", "free", "clipping difference", "", 0.0, "share of the samples at full scale"),
    Metric("silence_difference", "free", "silence difference", "", 0.0, "share of the frames that are pauses"),
    Metric("mcd_db", "free", "mel-cepstral distance, aligned", "dB", 0.0, "of the spectral envelopes, best alignment"),
    Metric(
        "p808_drop", "free", "opinion score drop (P.808)", "", 0.0,
        "predicted score of the reference, 1 to 5, less the candidate's; below 0 the candidate is better",
    ),
    Metric(
        "error_rate", "free", "recogniser's error rate", "", 0.0,
        "of words, in languages without spaces of syllables: what the recogniser did not understand of the candidate",
    ),
    Metric("error_rate_rise", "free", "rise of the error rate", "", 0.0, "candidate - reference"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
