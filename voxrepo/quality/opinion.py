"""A predicted opinion score: what listeners would say of the quality of an utterance, with nothing to compare it to.

The model is P.808 of DNSMOS (C. Reddy, V. Gopal, R. Cutler, "DNSMOS: a non-intrusive perceptual objective speech
quality metric", ICASSP 2021), trained on ratings collected after ITU-T P.808. It comes with the package ``speechmos``
(MIT, Microsoft), of which the file with the weights is taken and no code is run: that would need librosa, and with it
a compiler of its own, for one spectrogram.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from voxrepo.quality.resampling import resampled
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import sha256_of

RATE_HZ = 16_000
WINDOW_S = 9.01
"""What the model hears at once; shorter audio is repeated, of longer audio windows one second apart are averaged."""
MODEL_SHA256 = "9246480c58567bc6affd4200938e77eef49468c8bc7ed3776d109c07456f6e91"
MEL_BANDS = 120
FFT_SIZE = 321
HOP_SAMPLES = 160
TOP_DB = 80.0
INSTALL = "install the optional extra 'quality': pip install 'voxrepo[quality]' (package speechmos 0.0.1.1)"

Array = npt.NDArray[np.float32]


def model_file() -> Path:
    """Where the weights are.

    Raises:
        ConfigError: the package is not installed, or another version.
    """
    found = importlib.util.find_spec("speechmos")
    if found is None or not found.submodule_search_locations:
        raise ConfigError(f"the package speechmos is not installed; {INSTALL}")
    file = Path(found.submodule_search_locations[0]) / "dnsmos_models" / "model_v8.onnx"
    if not file.is_file() or sha256_of(file) != MODEL_SHA256:
        raise ConfigError(f"is not the P.808 model that the gates are set for; {INSTALL}", file=file)
    return file


class OpinionModel:
    """Scores utterances, 1 (bad) to 5 (excellent).

    Raises:
        ConfigError: the package is not installed, or another version.
    """

    def __init__(self) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = ort.InferenceSession(str(model_file()), options, providers=["CPUExecutionProvider"])

    def score(self, audio: npt.NDArray[np.int16], sample_rate_hz: int) -> float | None:
        """The score; None for audio without a sample that is not zero.

        Args:
            audio: INT16 [N].
            sample_rate_hz: its rate.
        """
        samples = resampled(audio, sample_rate_hz, RATE_HZ)
        if not samples.any():
            return None
        window = int(WINDOW_S * RATE_HZ)
        while samples.size < window:
            samples = np.concatenate([samples, samples])  # doubled, as in the package
        scores = []
        # whole seconds only, as in the package
        for second in range(int(samples.size // RATE_HZ - WINDOW_S) + 1):
            part = samples[second * RATE_HZ : second * RATE_HZ + window]
            features = mel_spectrogram(part[:-HOP_SAMPLES])[np.newaxis]
            scores.append(float(np.ravel(self._session.run(None, {"input_1": features})[0])[0]))
        return float(np.mean(scores))


def mel_spectrogram(samples: Array) -> Array:
    """What the model was trained on: FP32 [frames, 120], decibels below the loudest, 1 at it and -1 at -80 dB.

    Args:
        samples: FP32 [N] at 16 kHz.
    """
    padded = np.pad(samples, FFT_SIZE // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SIZE)[::HOP_SAMPLES]
    # periodic Hann, as for spectra
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SIZE) / FFT_SIZE)
    power = np.square(np.abs(np.fft.rfft(frames * window, axis=1)))
    bands = power @ _slaney_filters()
    decibels = 10.0 * np.log10(np.maximum(bands, 1e-10)) - 10.0 * np.log10(max(1e-10, float(bands.max())))
    scaled: Array = ((np.maximum(decibels, -TOP_DB) + 40.0) / 40.0).astype(np.float32)
    return scaled


@functools.lru_cache(maxsize=1)
def _slaney_filters() -> npt.NDArray[np.float64]:
    """Triangles of equal area on the mel scale of M. Slaney's Auditory Toolbox (1998): FP64 [bins, bands]."""
    edges_hz = _slaney_hz(np.linspace(0.0, _slaney_mel(RATE_HZ / 2), MEL_BANDS + 2))
    bins_hz = np.arange(FFT_SIZE // 2 + 1)[:, None] * (RATE_HZ / FFT_SIZE)
    low, middle, high = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    triangles = np.maximum(np.minimum((bins_hz - low) / (middle - low), (high - bins_hz) / (high - middle)), 0.0)
    filters: npt.NDArray[np.float64] = triangles * (2.0 / (high - low))
    return filters


_HZ_PER_MEL = 200.0 / 3.0
_LOG_FROM_HZ = 1000.0
_LOG_STEP = np.log(6.4) / 27.0


def _slaney_mel(hz: float) -> float:
    """Linear up to 1 kHz, 27 steps for a factor of 6.4 above."""
    if hz < _LOG_FROM_HZ:
        return hz / _HZ_PER_MEL
    return float(_LOG_FROM_HZ / _HZ_PER_MEL + np.log(hz / _LOG_FROM_HZ) / _LOG_STEP)


def _slaney_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    knee = _LOG_FROM_HZ / _HZ_PER_MEL
    hz: npt.NDArray[np.float64] = np.where(
        mel < knee, mel * _HZ_PER_MEL, _LOG_FROM_HZ * np.exp(_LOG_STEP * (np.maximum(mel, knee) - knee))
    )
    return hz
