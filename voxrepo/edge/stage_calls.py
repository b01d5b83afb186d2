"""Pure: requests to the stages of a voice, and their answers as numpy views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.dropped import take_dropped
from voxrepo.edge.openinference import raw_outputs
from voxrepo.edge.parameters import set_value
from voxrepo.edge.pieces_plan import Span
from voxrepo.edge.table import VoiceEntry
from voxrepo_contract import tensors
from voxrepo_contract.errors import Internal
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.pieces import FIRST_FRAME, FIRST_SEGMENT, KEEP_FROM_FRAME, SEGMENT_FRAMES
from voxrepo_contract.tensors import TensorSpec

Array = npt.NDArray[Any]
Int16Array = npt.NDArray[np.int16]

_DTYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype("<f4"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
}


def _request(
    voice: VoiceEntry, stage: str, identity: str, values: Mapping[TensorSpec, Array], parameters: Mapping[str, Any]
) -> Any:
    request = pb.ModelInferRequest(
        model_name=stage_model_name(voice.base, stage), model_version=str(voice.versions[stage]), id=identity
    )
    for spec, array in values.items():
        request.inputs.add(name=spec.name, datatype=spec.dtype, shape=(1, *array.shape))
        request.raw_input_contents.append(array.astype(_DTYPES[spec.dtype], copy=False).tobytes())
    for name, value in parameters.items():
        set_value(request.parameters[name], value, name)
    return request


def _arrays(response: Any, specs: tuple[TensorSpec, ...]) -> list[Array]:
    """Outputs as views of the answer's bytes, without the batch axis.

    Raises:
        Internal: one is missing, or is not what the contract says.
    """
    found: dict[str, tuple[Any, bytes]] = {}
    for output, raw in zip(response.outputs, raw_outputs(response), strict=True):
        found[output.name] = (output, raw)
    arrays = []
    for spec in specs:
        if spec.name not in found:
            raise Internal(f"the engine's answer of {response.model_name} has no output {spec.name!r}")
        output, raw = found[spec.name]
        shape = tuple(output.shape)
        want = (1, *spec.dims)
        fits = len(shape) == len(want) and all(w in (-1, have) for w, have in zip(want, shape, strict=True))
        dtype = _DTYPES[spec.dtype]
        if not fits or output.datatype != spec.dtype or len(raw) != dtype.itemsize * int(np.prod(shape)):
            raise Internal(
                f"{response.model_name} answered {spec.name!r} as {output.datatype} {list(shape)} of {len(raw)} bytes; "
                f"expected {spec.dtype} {list(want)}"
            )
        arrays.append(np.frombuffer(raw, dtype).reshape(shape)[0])
    return arrays


@dataclass(frozen=True)
class Phonemes:
    """What the text front end made of a text.

    Attributes:
        segments: ids of each segment, INT64 [T].
        pause_ms: silence after each segment.
        speed: FP32 [1].
        speaker_id: INT64 [1].
        seed: INT64 [1].
        dropped: characters that are not spoken, by reason.
    """

    segments: list[Array]
    pause_ms: list[int]
    speed: Array
    speaker_id: Array
    seed: Array
    dropped: dict[str, int]


def front_end_request(complete: Any, voice: VoiceEntry, identity: str) -> Any:
    """The front end's request; ``complete`` is the one for the voice's ensemble, with the same inputs."""
    request = pb.ModelInferRequest()
    request.CopyFrom(complete)
    request.model_name = stage_model_name(voice.base, "text_frontend")
    request.model_version = str(voice.versions["text_frontend"])
    request.id = identity
    del request.outputs[:]
    return request


def read_phonemes(response: Any) -> Phonemes:
    """The front end's answer. It loses its output ``dropped``.

    Raises:
        Internal: it is not what the contract says.
    """
    dropped = take_dropped(response)
    ids, lengths, pause_ms, speed, speaker_id, seed = _arrays(
        response,
        (
            tensors.PHONEME_IDS,
            tensors.SEGMENT_LENGTHS,
            tensors.PAUSE_MS,
            tensors.SPEED,
            tensors.SPEAKER_ID,
            tensors.SEED,
        ),
    )
    if len(lengths) == 0 or len(lengths) != len(pause_ms) or (lengths < 1).any() or int(lengths.sum()) != len(ids):
        raise Internal(f"{response.model_name} answered segments that do not add up to its {len(ids)} ids")
    segments = np.split(ids, np.cumsum(lengths)[:-1])
    return Phonemes(segments, pause_ms.tolist(), speed, speaker_id, seed, dropped)


def acoustic_request(
    phonemes: Phonemes, segment: int, voice: VoiceEntry, identity: str, parameters: Mapping[str, Any]
) -> Any:
    """The acoustic stage's request for one segment."""
    ids = phonemes.segments[segment]
    values = {
        tensors.PHONEME_IDS: ids,
        tensors.SEGMENT_LENGTHS: np.array([len(ids)]),
        tensors.PAUSE_MS: np.array([phonemes.pause_ms[segment]]),
        tensors.SPEED: phonemes.speed,
        tensors.SPEAKER_ID: phonemes.speaker_id,
        tensors.SEED: phonemes.seed,
    }
    return _request(voice, "acoustic", identity, values, {**parameters, FIRST_SEGMENT: segment})


def read_features(response: Any, voice: VoiceEntry) -> Array:
    """Features FP32 [F, C] of the one segment in an acoustic answer.

    Raises:
        Internal: they are not what the contract says.
    """
    features, lengths = _arrays(response, (tensors.features(voice.channels), tensors.FRAME_LENGTHS))
    if lengths.tolist() != [len(features)] or len(features) == 0:
        raise Internal(f"{response.model_name} answered {len(features)} frames as segments of {lengths.tolist()[:20]}")
    return features


def vocoder_request(
    features: Array, span: Span, kept: int, voice: VoiceEntry, identity: str, parameters: Mapping[str, Any]
) -> Any:
    """The vocoder's request for the audio of a segment from frame ``kept`` on.

    Args:
        features: FP32 [F, C] of the whole segment; only those in ``span`` are copied.
        span: frames to send.
        kept: first frame whose audio is wanted.
        voice: the voice.
        identity: request id.
        parameters: values for the stages.
    """
    values = {
        tensors.features(voice.channels): features[span.start : span.stop],
        tensors.FRAME_LENGTHS: np.array([span.stop - span.start]),
        tensors.PAUSE_MS: np.array([0]),
    }
    piece = {SEGMENT_FRAMES: len(features), FIRST_FRAME: span.start, KEEP_FROM_FRAME: kept}
    return _request(voice, "vocoder", identity, values, {**parameters, **piece})


def read_audio(response: Any, most_frames: int, voice: VoiceEntry) -> Int16Array:
    """Audio INT16 [N] of a vocoder's answer, whole frames.

    Args:
        response: the answer.
        most_frames: frames that were left to make.
        voice: the voice.

    Raises:
        Internal: it is not what the contract says.
    """
    (audio,) = _arrays(response, (tensors.AUDIO,))
    frames, rest = divmod(len(audio), voice.hop_length_samples)
    if rest or not 0 < frames <= most_frames:
        raise Internal(
            f"{response.model_name} answered {len(audio)} samples; expected whole frames of "
            f"{voice.hop_length_samples} samples, 1 to {most_frames}"
        )
    return audio
