"""Audio that behaves like speech, and known damage to it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from voxrepo.quality.resampling import resampled

RATE_HZ = 22_050
Audio = npt.NDArray[np.int16]


def speech(
    seconds: float = 2.4, *, seed: int = 0, pitch_hz: float = 120.0, stretch: float = 1.0, noise_seed: int = 0
) -> Audio:
    """Syllables: a buzz with formants that move, breath between the harmonics, pauses between words.

    Args:
        seconds: of it.
        seed: of what is said.
        pitch_hz: of the voice.
        stretch: of its timing.
        noise_seed: of the breath, and of slight differences in timing.
    """
    said = np.random.default_rng(seed)
    count = round(seconds * RATE_HZ * stretch)
    times = np.arange(count) / RATE_HZ / stretch
    syllables = int(seconds / 0.2) + 1
    formants = said.uniform([300, 900, 2200], [800, 2000, 3200], (syllables, 3))
    loud = said.uniform(0.4, 1.0, syllables)
    loud[3::5] = 0.0
    if noise_seed:
        formants = formants * np.random.default_rng(noise_seed).uniform(0.99, 1.01, formants.shape)
    at = np.arange(syllables) * 0.2
    tracks = [np.interp(times, at, formants[:, number]) for number in range(3)]
    envelope = np.interp(times, at, loud) * np.sqrt(np.abs(np.sin(np.pi * times / 0.2)) + 0.05)
    envelope[np.interp(times, at, loud) < 0.15] = 0.0
    phase = 2 * np.pi * np.cumsum(pitch_hz * (1 + 0.05 * np.sin(2 * np.pi * 0.7 * times))) / RATE_HZ
    wave = np.zeros(count)
    for harmonic in range(1, int(RATE_HZ / 2.2 / pitch_hz)):
        gain = sum(np.exp(-(((harmonic * pitch_hz - track) / 160.0) ** 2)) for track in tracks) + 0.02
        wave += gain * np.sin(harmonic * phase)
    breath = np.random.default_rng(noise_seed).standard_normal(count)
    wave = (wave + 0.1 * breath) * envelope
    return np.asarray(np.clip(wave / np.abs(wave).max() * 9000, -32767, 32767), np.float64).astype(np.int16)


def louder(audio: Audio, decibels: float) -> Audio:
    return clipped(audio.astype(np.float64) * 10 ** (decibels / 20))


def clipped(samples: npt.NDArray[np.float64]) -> Audio:
    return np.clip(np.rint(samples), -32767, 32767).astype(np.int16)


def noisy(audio: Audio, snr_db: float, seed: int = 1) -> Audio:
    samples = audio.astype(np.float64)
    level = np.sqrt(np.mean(np.square(samples))) * 10 ** (-snr_db / 20)
    return clipped(samples + level * np.random.default_rng(seed).standard_normal(samples.size))


def band_limited(audio: Audio, to_hz: int = 5_000) -> Audio:
    """Nothing above half of ``to_hz`` is left."""
    samples = resampled(audio, RATE_HZ, to_hz)
    back = resampled(clipped(samples.astype(np.float64) * 32768), to_hz, RATE_HZ)
    return np.resize(clipped(back.astype(np.float64) * 32768), audio.size)


def rounded(audio: Audio, steps: int) -> Audio:
    """As quantised layers leave it: 12 steps to either side give the signal to noise ratio of an 8-bit vocoder."""
    step = float(np.abs(audio.astype(np.int32)).max()) / steps
    return clipped(np.rint(audio / step) * step)


def resampled_faster(audio: Audio, by: float) -> Audio:
    """Faster and higher at once."""
    positions = np.arange(0, audio.size - 1, by)
    return clipped(np.interp(positions, np.arange(audio.size), audio.astype(np.float64)))
