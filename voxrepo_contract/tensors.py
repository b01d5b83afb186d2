"""Names, Triton data types and shapes of the tensors between clients and stages.

Shapes are given after the batch axis, which is always 1 per request: everything of variable length is flat plus
lengths. ``S`` segments, ``T`` ids, ``F`` frames, ``C`` channels, ``N`` samples.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a stage's contract.

    Attributes:
        name: name on the wire.
        dtype: Open Inference Protocol data type (``BYTES``, ``FP32``, ``INT64`` ...).
        dims: dims after the batch axis, -1 where the length varies.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]


SPEED_MIN = 0.25
SPEED_MAX = 4.0
"""Range of ``speed``; a voice may narrow it."""

NOISE_SCALE_MAX = 2.0
"""Largest ``noise_scale`` and ``noise_w_scale``, of a request as of a voice."""

TEXT = TensorSpec("text", "BYTES", (1,))
SPEED = TensorSpec("speed", "FP32", (1,))
SPEAKER = TensorSpec("speaker", "BYTES", (1,))
SEED = TensorSpec("seed", "INT64", (1,))

PHONEME_IDS = TensorSpec("phoneme_ids", "INT64", (-1,))
SEGMENT_LENGTHS = TensorSpec("segment_lengths", "INT32", (-1,))
PAUSE_MS = TensorSpec("pause_ms", "INT32", (-1,))
SPEAKER_ID = TensorSpec("speaker_id", "INT64", (1,))

FRAME_LENGTHS = TensorSpec("frame_lengths", "INT32", (-1,))

AUDIO = TensorSpec("audio", "INT16", (-1,))
SAMPLE_RATE = TensorSpec("sample_rate", "INT32", (1,))

DROPPED = TensorSpec("dropped", "BYTES", (1,))
"""Characters that were not spoken: a JSON object of reason and count. Out of the ensemble for the edge, which makes a
response parameter of it; clients do not see the tensor."""


def features(channels: int) -> TensorSpec:
    """The acoustic features of one request, FP32 [F, C]; ``channels`` is fixed per voice, -1 if not known."""
    return TensorSpec("features", "FP32", (-1, channels))


VOICE_INPUTS = (TEXT, SPEED, SPEAKER, SEED)
VOICE_OUTPUTS = (AUDIO, SAMPLE_RATE)
"""What clients see of a voice's outputs."""
ENSEMBLE_OUTPUTS = (*VOICE_OUTPUTS, DROPPED)
"""What the ensemble gives to the edge."""


@dataclass(frozen=True)
class StageContract:
    """What one stage of a voice takes and gives."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def stage_contract(stage: str, channels: int) -> StageContract:
    """Tensors of ``stage`` (``text_frontend``, ``acoustic`` or ``vocoder``) for a voice with ``channels`` features.

    Raises:
        KeyError: for any other stage name.
    """
    return {
        "text_frontend": StageContract(
            VOICE_INPUTS, (PHONEME_IDS, SEGMENT_LENGTHS, PAUSE_MS, SPEED, SPEAKER_ID, SEED, DROPPED)
        ),
        "acoustic": StageContract(
            (PHONEME_IDS, SEGMENT_LENGTHS, PAUSE_MS, SPEED, SPEAKER_ID, SEED),
            (features(channels), FRAME_LENGTHS, PAUSE_MS),
        ),
        "vocoder": StageContract((features(channels), FRAME_LENGTHS, PAUSE_MS), VOICE_OUTPUTS),
    }[stage]
