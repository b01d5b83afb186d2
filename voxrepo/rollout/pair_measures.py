"""What is measured of a pair of audio: the judged arm's against the stable arm's, for the same text and seed."""

from __future__ import annotations

import logging
import math
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from voxrepo.quality.comparison import compare
from voxrepo.quality.recogniser import Recogniser, error_rates
from voxrepo.rollout.metric import STABLE_MEASURE_PREFIX
from voxrepo.rollout.plan import PairSeen
from voxrepo.rollout.route import STABLE_ARM
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)

ERROR_RATES = frozenset({"word_error_rate", "character_error_rate"})
Audio = npt.NDArray[np.int16]


class Transcriber(Protocol):
    """Speech to text."""

    def transcribe(self, audio: Audio, sample_rate_hz: int, language: str) -> str:
        """What is said."""


def read_wav(file: Path) -> tuple[Audio, int]:
    """Samples, INT16 [N], and their rate in Hz.

    Raises:
        OSError: it cannot be read.
        wave.Error: it is no such file, likewise EOFError.
    """
    with wave.open(str(file), "rb") as stream:
        if (stream.getnchannels(), stream.getsampwidth()) != (1, 2):
            raise wave.Error("is not 16 bit mono")
        return np.frombuffer(stream.readframes(stream.getnframes()), "<i2").astype(np.int16), stream.getframerate()


class PairMeasures:
    """Measures pairs. The recogniser, which takes seconds and memory, is made only if a gate asks for it.

    Args:
        recogniser: makes it.
    """

    def __init__(self, recogniser: Callable[[], Transcriber] = Recogniser) -> None:
        self._make_recogniser = recogniser
        self._recogniser: Transcriber | None = None
        self.fault = ""

    def measure(self, seen: PairSeen, files: dict[str, Path], *, with_error_rates: bool = False) -> dict[str, float]:
        """Measure one pair.

        Args:
            seen: what the edge said of it.
            files: audio by arm.
            with_error_rates: whether the recogniser listens, too.

        Returns:
            measures by metric name; empty if one of both has no audio.

        Raises:
            OSError: a file cannot be read.
            wave.Error: a file is damaged, likewise EOFError.
        """
        if seen.fault or seen.arm not in files or STABLE_ARM not in files:
            return {}
        audio, rate_hz = read_wav(files[seen.arm])
        stable, _ = read_wav(files[STABLE_ARM])
        found = compare(audio, stable, rate_hz)
        measures = {
            "duration_ratio": found.duration_ratio,
            "level_difference_db": found.level_difference_db,
            "mel_cepstral_distance_db": found.mel_cepstral_distance_db,
        }
        if with_error_rates:
            measures |= self._heard(seen, audio, "", rate_hz)
            measures |= self._heard(seen, stable, STABLE_MEASURE_PREFIX, rate_hz)
        return {name: value for name, value in measures.items() if value is not None and math.isfinite(value)}

    def _heard(self, seen: PairSeen, audio: Audio, prefix: str, rate_hz: int) -> dict[str, float | None]:
        if self.fault:
            return {}
        try:
            if self._recogniser is None:
                self._recogniser = self._make_recogniser()
            rates = error_rates(seen.text, self._recogniser.transcribe(audio, rate_hz, seen.language), seen.language)
        except ConfigError as error:
            self.fault = error.message
            log.error("error rates are not measured: %s", error.message)
            return {}
        return {f"{prefix}word_error_rate": rates.words, f"{prefix}character_error_rate": rates.characters}
