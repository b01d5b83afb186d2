"""Whether a vocoder understands an acoustic graph's features: heard from the level of what it makes of them.

Features of the wrong kind run without an error and sound like noise, a whisper or nothing. Speech, as vocoders are
trained on it, has a level of about -22 dBFS, hardly reaches full scale, and is 25 to 60 dB louder in its vowels than in
its pauses. A mel spectrogram by another logarithm is too wide or too narrow, one with another zero too loud or too
quiet; the same features at other scales then tell which was meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]
Speak = Callable[[Array], Array]

MIN_LEVEL_DBFS, MAX_LEVEL_DBFS = -38.0, -10.0
"""Of an utterance. Measured: natural -22 and -25 (zh-baker, en-joe); a log mel times ln 10 -8, divided by ln 10 -40."""
MAX_CLIPPED = 0.005
"""Share of samples at or above full scale."""
MIN_RANGE_DB = 26.0
"""Between loud and quiet frames. Speech of the two voices: 47 and 48 dB; constant features 1, bands in disorder 10, a
mel that is too narrow 24."""
SPEECH_LEVEL_DBFS, SPEECH_RANGE_DB = -22.0, 47.0
MIN_ANSWER_DB = 3.0
"""Change of level that features must make against their own mean, or the vocoder does not listen to them."""
_FRAME_S = 0.02
_FULL_SCALE = 0.999
_FLOOR = 1e-10

LN10 = math.log(10)
SCALES: tuple[tuple[float, float, str], ...] = (
    (LN10, 0.0, "log10 where the natural log is expected"),
    (1 / LN10, 0.0, "the natural log where log10 is expected"),
    (LN10 / 20, 0.0, "dB where the natural log is expected"),
    (20 / LN10, 0.0, "the natural log where dB are expected"),
    (1 / 20, 0.0, "dB where log10 is expected"),
    (20.0, 0.0, "log10 where dB are expected"),
    (0.5, 0.0, "a power spectrum where amplitudes are expected"),
    (2.0, 0.0, "amplitudes where a power spectrum is expected"),
    (1.0, LN10, "ten times too low"),
    (1.0, -LN10, "ten times too high"),
)
"""What features may be taken for: factor and offset that put it right."""

PLAIN_LOG_MELS = ((-5.5, 2.1), (-2.4, 0.9))
"""Mean and deviation over speech of a mel of 80 bands by the natural logarithm (as Matcha's configuration for LJSpeech
gives them, rounded) and by log10."""


@dataclass(frozen=True)
class Heard:
    """Measures of what a vocoder made.

    Attributes:
        level_dbfs: root mean square.
        peak: of the largest sample, full scale 1.
        clipped: share of the samples at or above full scale.
        range_db: between the 95th and the 10th percentile of frames of 20 ms.
    """

    level_dbfs: float
    peak: float
    clipped: float
    range_db: float

    def problem(self) -> str | None:
        """Why it is no speech, ``None`` if it may be."""
        if not math.isfinite(self.level_dbfs):
            return "not a number"
        if self.level_dbfs > MAX_LEVEL_DBFS or self.clipped > MAX_CLIPPED:
            return "far too loud"
        if self.level_dbfs < MIN_LEVEL_DBFS:
            return "far too quiet"
        if self.range_db < MIN_RANGE_DB:
            return "as loud in pauses as in vowels"
        return None

    def distance(self) -> float:
        """How far it is from speech, for choosing among candidates."""
        return abs(self.level_dbfs - SPEECH_LEVEL_DBFS) + abs(self.range_db - SPEECH_RANGE_DB) / 2 + 1000 * self.clipped

    def __str__(self) -> str:
        return (
            f"level {self.level_dbfs:.1f} dBFS, peak {self.peak:.2f}, clipped {100 * self.clipped:.1f} %, "
            f"{self.range_db:.0f} dB between loud and quiet frames"
        )


def hear(audio: Array, sample_rate_hz: int) -> Heard:
    """Measure a waveform FP32 [samples], full scale 1."""
    audio = np.asarray(audio, np.float64)
    if not audio.size or not np.isfinite(audio).all():
        return Heard(math.nan, math.nan, 1.0, 0.0)
    size = max(1, round(_FRAME_S * sample_rate_hz))
    whole = max(1, audio.size // size) * size
    frames = np.resize(audio, whole).reshape(-1, size)
    powers = 10 * np.log10(np.mean(np.square(frames), axis=1) + _FLOOR)
    return Heard(
        float(10 * np.log10(np.mean(np.square(audio)) + _FLOOR)),
        float(np.abs(audio).max()),
        float(np.mean(np.abs(audio) >= _FULL_SCALE)),
        float(np.percentile(powers, 95) - np.percentile(powers, 10)),
    )


def _spoken(features: Sequence[Array], speak: Speak, scale: float, shift: float) -> Array:
    return np.concatenate(
        [speak(np.asarray(one * np.float32(scale) + np.float32(shift), np.float32)) for one in features]
    )


@dataclass(frozen=True)
class SoundCheck:
    """What the check found.

    Attributes:
        heard: of the features as they are.
        flat: of features that are constant over time.
    """

    heard: Heard
    flat: Heard

    def table(self) -> dict[str, Any]:
        """Plain values for ``stage.yaml``."""
        return {
            "level_dbfs": round(self.heard.level_dbfs, 1),
            "peak": round(self.heard.peak, 3),
            "clipped_ratio": round(self.heard.clipped, 5),
            "range_db": round(self.heard.range_db, 1),
            "level_of_constant_features_dbfs": round(self.flat.level_dbfs, 1),
        }


def check_sound(
    features: Sequence[Array], speak: Speak, sample_rate_hz: int, what: str, *, mel_scale: float = 1.0
) -> SoundCheck:
    """Refuse features that the vocoder does not understand.

    Args:
        features: FP32 [1, C, frames] of some texts, as they will be given to the vocoder.
        speak: runs the vocoder: features to audio FP32 [samples].
        sample_rate_hz: of the audio.
        what: the two files, for messages.
        mel_scale: that the features were multiplied with already, for advice.

    Raises:
        ConversionRefused: with numbers, and the scale that would fit, if one does.
    """
    everything = np.concatenate([one[0] for one in features], axis=1)
    if not np.isfinite(everything).all():
        raise ConversionRefused(f"{what}: the features are not all numbers; the acoustic graph fails on these texts")
    heard = hear(_spoken(features, speak, 1.0, 0.0), sample_rate_hz)
    problem = heard.problem()
    if problem is not None:
        advice = _advice(features, speak, sample_rate_hz, mel_scale)
        raise ConversionRefused(f"{what}: what is spoken is {problem} ({heard}). {advice}")
    mean = everything.mean(axis=1)[None, :, None]
    flat = hear(speak(np.tile(mean, (1, 1, 64)).astype(np.float32)), sample_rate_hz)
    if abs(flat.level_dbfs - heard.level_dbfs) < MIN_ANSWER_DB and abs(flat.range_db - heard.range_db) < MIN_RANGE_DB:
        raise ConversionRefused(
            f"{what}: the vocoder makes the same of constant features ({flat}) as of speech ({heard}); it does not "
            "listen to them"
        )
    return SoundCheck(heard, flat)


def _advice(features: Sequence[Array], speak: Speak, sample_rate_hz: int, mel_scale: float) -> str:
    """The likely cause."""
    everything = np.concatenate([one[0] for one in features], axis=1)
    mean, deviation = float(everything.mean()), float(everything.std())
    seen = f"the features have mean {mean:.2f} and deviation {deviation:.2f}"
    offsets: list[tuple[float, float, str]] = []
    if deviation > 0:
        offsets.append((1 / deviation, -mean / deviation, "not normalised where mean 0, deviation 1 are expected"))
        for to_mean, to_deviation in PLAIN_LOG_MELS:
            factor = to_deviation / deviation
            offsets.append((factor, to_mean - mean * factor, "normalised where a plain log mel is expected"))
    fitting: list[tuple[float, float, float, str, Heard]] = []
    # another unit is likelier than another normalisation, whose two numbers can be bent to fit almost anything
    for candidates in (SCALES, offsets):
        for scale, shift, cause in candidates:
            heard = hear(_spoken(features, speak, scale, shift), sample_rate_hz)
            if heard.problem() is None:
                fitting.append((heard.distance(), scale, shift, cause, heard))
        if fitting:
            break
    if not fitting:
        return (
            f"No usual scale of a mel spectrogram puts it right ({seen}): the two were not made for each other, or the "
            "bands are in another order"
        )
    _, scale, shift, cause, heard = min(fitting, key=lambda one: one[0])
    flags = f"--mel-scale {scale * mel_scale:.5g}" + (f" --mel-shift {shift:.4g}" if shift else "")
    return f"The mel looks like {cause} ({seen}): {flags} would fit ({heard})"
