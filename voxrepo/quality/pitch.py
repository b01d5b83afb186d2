"""Pitch: where a voice is voiced, and how high it speaks there.

YIN (A. de Cheveigne and H. Kawahara, "YIN, a fundamental frequency estimator for speech and music", JASA 111, 2002):
the period is the first lag at which the difference of a frame and its shifted self, relative to the mean difference of
all shorter lags, has a minimum below a threshold. Written here, since the packages that carry trackers ship no wheels
or bring a compiler of their own along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voxrepo.quality.levels import FULL_SCALE, active_power

LOWEST_HZ = 60.0
HIGHEST_HZ = 500.0
HOP_S = 0.01
WINDOW_S = 0.025
"""Samples that are compared with those a lag later."""
THRESHOLD = 0.3
"""Of the normalised difference, below which a frame is voiced. The paper's is 0.1, for its recordings; of a hoarse
voice that would leave a fifth of the frames, with the same median."""
QUIET_DB = -30.0
"""Power of a frame below the utterance's level that makes it a pause."""
LEAST_VOICED_FRAMES = 5
"""Frames of 10 ms below which an utterance has no pitch to compare."""


@dataclass(frozen=True)
class PitchDifference:
    """How the pitch of two utterances of one text differs.

    Attributes:
        median_cents: median pitch, candidate against reference.
        voiced_share: share of the frames with sound that are voiced, candidate - reference.
        frame_cents: mean absolute difference of frames that are voiced in both; only where the samples line up.
        voicing_agreement: share of the frames in which both are voiced or neither; likewise.
    """

    median_cents: float | None
    voiced_share: float | None
    frame_cents: float | None = None
    voicing_agreement: float | None = None


@dataclass(frozen=True)
class PitchTrack:
    """Pitch in Hz, FP64 [frames] each 10 ms, 0 where unvoiced; and BOOL [frames], where there is any sound."""

    pitch_hz: npt.NDArray[np.float64]
    sounding: npt.NDArray[np.bool_]

    @property
    def voiced_hz(self) -> npt.NDArray[np.float64]:
        """Pitch of the voiced frames."""
        return self.pitch_hz[self.pitch_hz > 0]


def pitch_track(audio: npt.NDArray[np.int16], sample_rate_hz: int) -> PitchTrack:
    """Track the pitch; 10 s take some 50 ms.

    Args:
        audio: INT16 [N].
        sample_rate_hz: its rate.
    """
    window = round(WINDOW_S * sample_rate_hz)
    shortest, longest = int(sample_rate_hz / HIGHEST_HZ), math.ceil(sample_rate_hz / LOWEST_HZ)
    size = window + longest + 1
    if audio.size < size:
        return PitchTrack(np.zeros(0), np.zeros(0, np.bool_))
    samples = audio.reshape(-1).astype(np.float64) / FULL_SCALE
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[:: round(HOP_S * sample_rate_hz)]
    powers = np.einsum("ij,ij->i", frames[:, :window], frames[:, :window]) / window
    level = active_power(powers.astype(np.float32))
    sounding = powers >= level * 10.0 ** (QUIET_DB / 10.0) if level else np.zeros(len(powers), np.bool_)
    pitch_hz = np.zeros(len(frames))
    normalised = _normalised_difference(frames[sounding], window, longest)
    pitch_hz[sounding] = [_pitch(row, shortest, sample_rate_hz) for row in normalised]
    return PitchTrack(pitch_hz, sounding)


def _normalised_difference(frames: npt.NDArray[np.float64], window: int, longest: int) -> npt.NDArray[np.float64]:
    """Cumulative mean normalised difference, equation 8 of the paper: FP64 [frames, longest + 2], 1 at lag 0."""
    lags = longest + 2
    fft_size = 1 << (frames.shape[1] + window - 1).bit_length()
    products = np.fft.irfft(
        np.fft.rfft(frames, fft_size, axis=1) * np.conj(np.fft.rfft(frames[:, :window], fft_size, axis=1)),
        fft_size,
        axis=1,
    )[:, :lags]
    sums = np.concatenate([np.zeros((len(frames), 1)), np.cumsum(np.square(frames), axis=1)], axis=1)
    energies = sums[:, window : window + lags] - sums[:, :lags]
    difference = np.maximum(energies[:, :1] + energies - 2 * products, 0.0)
    difference[:, 0] = 0.0
    running = np.cumsum(difference, axis=1)
    normalised: npt.NDArray[np.float64] = np.ones_like(difference)
    counted = np.arange(1, lags)
    np.divide(difference[:, 1:] * counted, running[:, 1:], out=normalised[:, 1:], where=running[:, 1:] > 0)
    return normalised


def _pitch(row: npt.NDArray[np.float64], shortest: int, sample_rate_hz: int) -> float:
    below = np.flatnonzero(row[shortest:-1] < THRESHOLD)
    if not below.size:
        return 0.0
    lag = shortest + int(below[0])
    while lag + 2 < len(row) and row[lag + 1] < row[lag]:
        lag += 1
    before, here, after = row[lag - 1], row[lag], row[lag + 1]
    curve = before - 2 * here + after
    shift = 0.5 * (before - after) / curve if curve > 0 else 0.0
    return float(sample_rate_hz / (lag + float(np.clip(shift, -0.5, 0.5))))


def pitch_difference(candidate: PitchTrack, reference: PitchTrack, *, line_up: bool) -> PitchDifference:
    """Compare two tracks of one text.

    Args:
        candidate: of the candidate.
        reference: of the reference.
        line_up: whether frames of the same number are of the same moment.
    """
    voiced = candidate.voiced_hz, reference.voiced_hz
    median = None
    if min(map(len, voiced)) >= LEAST_VOICED_FRAMES:
        median = cents(float(np.median(voiced[0])), float(np.median(voiced[1])))
    shares = [len(track.voiced_hz) / max(1, int(track.sounding.sum())) for track in (candidate, reference)]
    has_sound = candidate.sounding.any() and reference.sounding.any()
    share = shares[0] - shares[1] if has_sound else None
    if not line_up or len(candidate.pitch_hz) != len(reference.pitch_hz) or not has_sound:
        return PitchDifference(median, share)
    both = (candidate.pitch_hz > 0) & (reference.pitch_hz > 0)
    apart = np.abs(1200 * np.log2(candidate.pitch_hz[both] / reference.pitch_hz[both]))
    heard = candidate.sounding | reference.sounding
    agreement = float(np.mean(((candidate.pitch_hz > 0) == (reference.pitch_hz > 0))[heard]))
    frame_cents = float(apart.mean()) if both.sum() >= LEAST_VOICED_FRAMES else None
    return PitchDifference(median, share, frame_cents, agreement)


def cents(one_hz: float, other_hz: float) -> float:
    """How much higher the first is; an octave has 1200."""
    return 1200.0 * math.log2(one_hz / other_hz)
