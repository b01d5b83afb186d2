"""From what two sides said to numbers: of each text, and of all together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Protocol

import numpy as np

from voxrepo.quality.cepstrum import mel_cepstral_distance_db, mel_cepstral_distance_unaligned_db
from voxrepo.quality.levels import Levels, measure_levels
from voxrepo.quality.offline import Audio
from voxrepo.quality.opinion import OpinionModel
from voxrepo.quality.pesq_score import Pesq
from voxrepo.quality.pitch import PitchTrack, pitch_difference, pitch_track
from voxrepo.quality.recogniser import Recogniser, error_rates
from voxrepo.quality.speaking import Spoken
from voxrepo_contract.errors import ConfigError

SAME_SNR_DB = 120.0
"""Given for equal samples: more than 16 bits can tell."""

Values = dict[str, float]


class Opinion(Protocol):
    """See :class:`OpinionModel`."""

    def score(self, audio: Audio, sample_rate_hz: int) -> float | None:
        """Score of an utterance."""


class Pairs(Protocol):
    """See :class:`Pesq`."""

    def score(self, candidate: Audio, reference: Audio, sample_rate_hz: int) -> float | None:
        """Score of a pair."""


class Listener(Protocol):
    """See :class:`Recogniser`."""

    def transcribe(self, audio: Audio, sample_rate_hz: int, language: str) -> str:
        """What is said."""


@dataclass
class Row:
    """One text.

    Attributes:
        text: may be empty.
        values: of the pair, by metric.
        reference: of the reference alone.
        candidate: of the candidate alone.
        fault: why the candidate did not say it.
    """

    text: str
    values: Values = field(default_factory=dict)
    reference: Values = field(default_factory=dict)
    candidate: Values = field(default_factory=dict)
    fault: str = ""


@dataclass
class _Side:
    levels: Levels
    track: PitchTrack
    values: Values


class Measurer:
    """Measures pairs; models are loaded once.

    Args:
        language: of the voice, BCP 47.
        sample_rate_hz: of its audio.
        transcribe: let a recogniser listen, too.
        opinion: makes the opinion model.
        pesq: makes what scores pairs.
        recogniser: makes the recogniser.

    Attributes:
        missing: why a metric is not measured, by metric.

    Raises:
        ConfigError: a recogniser is asked for and not installed.
    """

    def __init__(
        self,
        language: str,
        sample_rate_hz: int,
        *,
        transcribe: bool = False,
        opinion: Callable[[], Opinion] = OpinionModel,
        pesq: Callable[[], Pairs] = Pesq,
        recogniser: Callable[[], Listener] = Recogniser,
    ) -> None:
        self._language = language
        self._rate_hz = sample_rate_hz
        self.missing: dict[str, str] = {}
        self._opinion: Opinion | None = None
        self._pesq: Pairs | None = None
        try:
            self._opinion = opinion()
        except ConfigError as error:
            self.missing["p808_drop"] = error.message
        try:
            self._pesq = pesq()
        except ConfigError as error:
            self.missing["fixed_pesq"] = error.message
        self._recogniser = recogniser() if transcribe else None
        self._sides: dict[bytes, _Side] = {}

    def measure(self, spoken: Spoken) -> Row:
        """Measure one text; what the reference said is remembered for the next candidate."""
        key = spoken.text.encode() + spoken.reference.tobytes()
        if key not in self._sides:
            self._sides[key] = self._side(spoken.text, spoken.reference)
        reference = self._sides[key]
        row = Row(spoken.text, reference=reference.values, fault=spoken.fault)
        if spoken.candidate is None:
            return row
        same = spoken.candidate.size == spoken.reference.size and np.array_equal(spoken.candidate, spoken.reference)
        candidate = reference if same else self._side(spoken.text, spoken.candidate)
        row.candidate = candidate.values
        found = self._free(spoken, candidate, reference)
        if spoken.fixed is not None:
            found |= self._fixed(spoken, reference)
        row.values = {name: value for name, value in found.items() if value is not None and math.isfinite(value)}
        return row

    def _side(self, text: str, audio: Audio) -> _Side:
        levels, track = measure_levels(audio, self._rate_hz), pitch_track(audio, self._rate_hz)
        values = {
            "duration_s": levels.duration_s,
            "level_dbfs": levels.level_dbfs,
            "peak_dbfs": levels.peak_dbfs,
            "clipped_ratio": levels.clipped_ratio,
            "silence_ratio": levels.silence_ratio,
        }
        if len(track.voiced_hz):
            values["median_pitch_hz"] = float(np.median(track.voiced_hz))
        opinion = None if self._opinion is None else self._opinion.score(audio, self._rate_hz)
        if opinion is not None:
            values["p808"] = opinion
        if self._recogniser is not None and text:
            heard = self._recogniser.transcribe(audio, self._rate_hz, self._language)
            values["error_rate"] = error_rate(text, heard, self._language)
        return _Side(levels, track, values)

    def _free(self, spoken: Spoken, candidate: _Side, reference: _Side) -> dict[str, float | None]:
        assert spoken.candidate is not None
        mine, theirs = candidate.levels, reference.levels
        pitch = pitch_difference(candidate.track, reference.track, line_up=False)
        values, base = candidate.values, reference.values
        found: dict[str, float | None] = {
            "duration_ratio": mine.duration_s / theirs.duration_s if theirs.duration_s else None,
            "moved_frames_ratio": spoken.moved_frames_ratio,
            "level_difference_db": mine.level_dbfs - theirs.level_dbfs,
            "pitch_difference_cents": pitch.median_cents,
            "voiced_difference": pitch.voiced_share,
            "clipped_difference": mine.clipped_ratio - theirs.clipped_ratio,
            "silence_difference": mine.silence_ratio - theirs.silence_ratio,
            "mcd_db": 0.0,
        }
        if mine is not theirs:  # else the samples are equal, and no rounding shall make them differ
            found["mcd_db"] = mel_cepstral_distance_db(spoken.candidate, spoken.reference, self._rate_hz)
        if "p808" in values and "p808" in base:
            found["p808_drop"] = base["p808"] - values["p808"]
        if "error_rate" in values and "error_rate" in base:
            found["error_rate"] = values["error_rate"]
            found["error_rate_rise"] = values["error_rate"] - base["error_rate"]
        return found

    def _fixed(self, spoken: Spoken, reference: _Side) -> dict[str, float | None]:
        assert spoken.fixed is not None
        pitch = pitch_difference(pitch_track(spoken.fixed, self._rate_hz), reference.track, line_up=True)
        return {
            "fixed_snr_db": signal_to_noise_db(spoken.fixed, spoken.reference),
            "fixed_mcd_db": mel_cepstral_distance_unaligned_db(spoken.reference, spoken.fixed, self._rate_hz),
            "fixed_pesq": (
                None if self._pesq is None else self._pesq.score(spoken.fixed, spoken.reference, self._rate_hz)
            ),
            "fixed_pitch_cents": pitch.frame_cents,
            "fixed_voicing_agreement": pitch.voicing_agreement,
        }


def signal_to_noise_db(candidate: Audio, reference: Audio) -> float | None:
    """Power of the reference over that of the difference, at most :data:`SAME_SNR_DB`; None if it is silent.

    Args:
        candidate: INT16 [N].
        reference: INT16 [N].
    """
    signal = float(np.sum(np.square(reference.astype(np.float64))))
    noise = float(np.sum(np.square(candidate.astype(np.float64) - reference.astype(np.float64))))
    if signal == 0:
        return None
    return SAME_SNR_DB if noise == 0 else min(SAME_SNR_DB, 10.0 * math.log10(signal / noise))


def error_rate(said: str, heard: str, language: str) -> float:
    """Errors per word; in Chinese per syllable, tones left out, since a recogniser chooses among characters alike.

    Raises:
        ConfigError: what compares texts is not installed.
    """
    if language.split("-", maxsplit=1)[0].lower() == "zh":
        said, heard = _syllables(said), _syllables(heard)
        language = "en"  # words with spaces between
    rates = error_rates(said, heard, language)
    return rates.characters if rates.words is None else rates.words


def _syllables(text: str) -> str:
    try:
        from pypinyin import lazy_pinyin
    except ImportError as error:
        raise ConfigError(
            "error rates of Chinese need pypinyin, of the optional extra 'mandarin': pip install 'voxrepo[mandarin]'"
        ) from error
    return " ".join(lazy_pinyin(text))


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Metrics over all texts that the candidate said: the mean, but of lengths the total, and the worst beside it."""
    said = [row for row in rows if not row.fault]
    found: dict[str, float] = {}
    names = dict.fromkeys(name for row in said for name in row.values)
    for name in names:
        found[name] = fmean(row.values[name] for row in said if name in row.values)
    totals = [sum(side.get("duration_s", 0.0) for side in sides) for sides in _sides(said)]
    if totals[0]:
        found["duration_ratio"] = totals[1] / totals[0]
        ratios = [row.values["duration_ratio"] for row in said if "duration_ratio" in row.values]
        found["worst_duration_ratio"] = max(ratios, key=lambda ratio: abs(ratio - 1.0))
    return found


def _sides(rows: Sequence[Row]) -> tuple[list[Mapping[str, float]], list[Mapping[str, float]]]:
    return [row.reference for row in rows], [row.candidate for row in rows]


def summary_of_sides(rows: Sequence[Row]) -> tuple[dict[str, float], dict[str, float]]:
    """Means of what is measured of each version alone."""
    sides = []
    for side in _sides([row for row in rows if not row.fault]):
        names = dict.fromkeys(name for values in side for name in values)
        sides.append({name: fmean(values[name] for values in side if name in values) for name in names})
    return sides[0], sides[1]
