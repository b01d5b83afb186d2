"""Two sets of stage versions say the same texts, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from voxrepo.quality.material import Line
from voxrepo.quality.offline import Audio, Features, OfflineStage, Rounding
from voxrepo_contract.errors import VoxrepoError

SEED = 20_240_601


@dataclass
class Spoken:
    """One text as both sides say it.

    Attributes:
        text: may be empty.
        reference: INT16 [N], free-running.
        candidate: INT16 [M], free-running; None if it failed.
        fault: why it failed.
        fixed: the candidate with the reference's noise and durations, INT16 [N]; None where that has no sense.
        not_fixed: why not.
        moved_frames_ratio: frames that phonemes got more or less, over all; None where phonemes differ.
    """

    text: str
    reference: Audio
    candidate: Audio | None = None
    fault: str = ""
    fixed: Audio | None = None
    not_fixed: str = ""
    moved_frames_ratio: float | None = None


@dataclass
class Times:
    """CPU seconds in the graphs by stage and text, the least of several runs."""

    reference: dict[tuple[str, int], float] = field(default_factory=dict)
    candidate: dict[tuple[str, int], float] = field(default_factory=dict)

    def ratio(self, stage: str) -> float | None:
        """Candidate / reference over the texts that both said."""
        both = [key for key in self.reference if key[0] == stage and key in self.candidate]
        total = sum(self.reference[key] for key in both)
        return sum(self.candidate[key] for key in both) / total if total > 0 else None

    def seconds(self, stage: str) -> tuple[float, float]:
        """Of the reference and the candidate, over all texts."""
        return (
            sum(value for (name, _), value in self.reference.items() if name == stage),
            sum(value for (name, _), value in self.candidate.items() if name == stage),
        )


class SpeakingPair:
    """Reference and candidate. What the reference says of a text is kept for the next candidate.

    Args:
        reference: version folders of acoustic stage and vocoder.

    Raises:
        ConfigError: a version cannot be loaded; see :class:`OfflineStage`.
    """

    def __init__(self, reference: Mapping[str, Path]) -> None:
        self._loaded: dict[Path, OfflineStage] = {}
        self._reference = {stage: self._load(reference[stage]) for stage in ("acoustic", "vocoder")}
        self._said: dict[int, tuple[Features, Audio]] = {}

    def _load(self, folder: Path) -> OfflineStage:
        if folder not in self._loaded:
            self._loaded[folder] = OfflineStage(folder)
        return self._loaded[folder]

    def speak(
        self, number: int, line: Line, candidate: Mapping[str, OfflineStage], times: Times, rounds: int
    ) -> Spoken:
        """Have both sides say one text.

        The sides take turns, so that what else the machine does meets both.

        Args:
            number: of the text, decides about the seed.
            line: the text.
            candidate: its stages.
            times: are added to.
            rounds: of the measurement of time; 0 for none. The reference is only said again for that.

        Raises:
            VoxrepoError: the reference cannot say it.
        """
        seed = SEED + number
        spoken = self._first(number, line, candidate, seed)
        if spoken.candidate is None:
            return spoken
        for turn in range(rounds):
            sides = [(self._reference, line.reference, times.reference), (candidate, line.candidate, times.candidate)]
            for stages, phonemes, seconds in sides[:: 1 if turn % 2 == 0 else -1]:
                for name in self._differing(candidate):
                    stage = stages[name]
                    before = stage.cpu_s
                    if name == "acoustic":
                        stage.features(phonemes, seed)
                    else:
                        stage.audio(self._said[number][0])
                    took = stage.cpu_s - before
                    seconds[name, number] = min(took, seconds.get((name, number), took))
        return spoken

    def _differing(self, candidate: Mapping[str, OfflineStage]) -> list[str]:
        """Stages whose times are compared: the vocoders get the same features, the reference's."""
        differing = [name for name, stage in candidate.items() if stage is not self._reference[name]]
        return differing or list(candidate)

    def _first(self, number: int, line: Line, candidate: Mapping[str, OfflineStage], seed: int) -> Spoken:
        if number not in self._said:
            features = self._reference["acoustic"].features(line.reference, seed)
            self._said[number] = features, self._reference["vocoder"].audio(features)
        features, audio = self._said[number]
        spoken = Spoken(line.text, audio)
        same_acoustic = candidate["acoustic"] is self._reference["acoustic"]
        try:
            says_same = same_acoustic and line.is_same
            own = features if says_same else candidate["acoustic"].features(line.candidate, seed)
            spoken.candidate = candidate["vocoder"].audio(own)
            if not line.is_same:
                spoken.not_fixed = "the phonemes differ"
                return spoken
            if own is features:
                spoken.moved_frames_ratio = 0.0
            else:
                spoken.moved_frames_ratio = moved_frames_ratio(own, features, self._reference["acoustic"].rounding)
            if same_acoustic:
                spoken.fixed = spoken.candidate
            elif not (features.durations and candidate["acoustic"].takes_durations):
                # as many frames of each segment: if phonemes moved within, it only measures worse
                if np.array_equal(own.frame_lengths, features.frame_lengths):
                    spoken.fixed = spoken.candidate
                else:
                    spoken.not_fixed = "an acoustic stage is one whole graph, to which no durations can be given"
            else:
                forced = candidate["acoustic"].features(line.candidate, seed, features.durations)
                spoken.fixed = candidate["vocoder"].audio(forced)
        except VoxrepoError as error:
            spoken.candidate = spoken.fixed = None
            spoken.fault = error.message
            return spoken
        if spoken.fixed is not None and spoken.fixed.size != audio.size:
            spoken.fixed, spoken.not_fixed = None, "samples do not line up at the same durations"
        return spoken

    def candidate_stages(self, candidate: Mapping[str, Path]) -> dict[str, OfflineStage]:
        """Load a candidate, the reference's stages where it names none.

        Raises:
            ConfigError: a version cannot be loaded.
        """
        kept = {stage.folder for stage in self._reference.values()}
        # candidates come and go; a search through many would fill the memory
        self._loaded = {folder: stage for folder, stage in self._loaded.items() if folder in kept}
        stages = dict(self._reference)
        for stage in stages:
            if stage in candidate:
                stages[stage] = self._load(candidate[stage])
        return stages

    @property
    def reference(self) -> dict[str, OfflineStage]:
        """The reference's stages."""
        return self._reference


def moved_frames_ratio(one: Features, other: Features, rounding: Rounding) -> float | None:
    """Share of the frames that belong to other phonemes, from the durations; None if they are not known."""
    total = moved = 0.0
    for key, durations in other.durations.items():
        if key not in one.durations:
            return None
        counts = [rounding(np.maximum(side, 0.0)) for side in (one.durations[key], durations)]
        moved += float(np.abs(counts[0] - counts[1]).sum())
        total += float(counts[1].sum())
    return moved / total if total else None
