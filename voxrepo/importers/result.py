"""What an importer tells of a voice that it has written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from voxrepo_contract.tensors import SPEED_MAX, SPEED_MIN

Progress = Callable[[str, float], None]
"""Told a sentence and the share done, 0 to 1."""


@dataclass(frozen=True)
class VoiceImport:
    """What an import made, as far as ``voice.yaml`` and the caller need it.

    Attributes:
        language: BCP 47 tag.
        speakers: names in the order of their ids.
        default_speaker: the speaker that the source uses when none is given.
        sample_rate_hz: of the audio.
        channels: C of the features between acoustic and vocoder.
        hop_length_samples: samples per frame.
        feature_kind: ``vits_latent``, ``vits_hidden`` or ``mel80_tensorflowtts``.
        window_frames: frames per call of the generator.
        overlap_frames: receptive field of the generator to each side.
        proof: figures of the proof, as in ``quality.proof`` of the stages.
        loudness: peak and level over the proof, as in ``quality.loudness`` of the vocoder.
        notes: sentences that whoever imports the voice should read.
        speed_range: slowest and fastest speed that the voice can have.
        vocoder_unit_batch: windows per call of the vocoder, ``None`` where it is free.
    """

    language: str
    speakers: tuple[str, ...]
    default_speaker: str
    sample_rate_hz: int
    channels: int
    hop_length_samples: int
    feature_kind: str
    window_frames: int
    overlap_frames: int
    proof: dict[str, Any]
    loudness: dict[str, float]
    notes: tuple[str, ...]
    speed_range: tuple[float, float] = (SPEED_MIN, SPEED_MAX)
    vocoder_unit_batch: int | None = None
