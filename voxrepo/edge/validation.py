"""Pure: a request for a voice becomes the complete request that the engine sees, or an error that says why not."""

from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.parameters import VoiceParameters, check_voice_parameters, set_value, shown
from voxrepo.edge.table import VoiceEntry
from voxrepo_contract.errors import InvalidArgument, NotFound
from voxrepo_contract.tensors import DROPPED, SEED, SPEAKER, SPEED, TEXT, VOICE_INPUTS, VOICE_OUTPUTS, TensorSpec

DEFAULT_SPEED = 1.0
SEED_RANGE = 2**31
"""Drawn seeds are below this, so that every client language can hold one exactly."""

VOICE_VERSION = "1"
_SHAPE = (1, 1)
_INPUTS = {spec.name: spec for spec in VOICE_INPUTS}
_OUTPUT_NAMES = [spec.name for spec in VOICE_OUTPUTS]
_TYPED_FIELD = {"BYTES": "bytes_contents", "FP32": "fp32_contents", "INT64": "int64_contents"}
_BYTES_PREFIX = struct.Struct("<I")
_FP32 = struct.Struct("<f")
_INT64 = struct.Struct("<q")
_MAX_NAMES_SHOWN = 20


def draw_seed() -> int:
    """A seed for a request that brought none, in [0, 2^31)."""
    return secrets.randbelow(SEED_RANGE)


@dataclass(frozen=True)
class VoiceCall:
    """A request that has been checked.

    Attributes:
        request: complete ``ModelInferRequest``: all four inputs as raw contents, only parameters that stages read,
            no id.
        text: the text.
        seed: the seed in use, drawn or given.
        parameters: checked parameters.
        speed: as given, or the default.
        speaker: as given, empty for the voice's default.
    """

    request: Any
    text: str
    seed: int
    parameters: VoiceParameters
    speed: float = DEFAULT_SPEED
    speaker: str = ""


def check_voice_version(version: str, voice: str) -> None:
    """Refuse any version of a voice but the one that exists.

    Raises:
        NotFound: the version is neither empty nor ``1``.
    """
    if version not in ("", VOICE_VERSION):
        raise NotFound(
            f"voice {voice!r} has no version {shown(version)}; leave the version out "
            f"(the versions of its stages are in the answer's parameter 'versions')"
        )


def _names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES_SHOWN
    listed = ", ".join(names[:_MAX_NAMES_SHOWN])
    return f"{listed} and {more} more" if more > 0 else listed


def refuse_shared_memory(request: Any) -> None:
    """Refuse tensors in shared memory, for any model.

    Raises:
        InvalidArgument: naming the tensor.
    """
    for kind, tensors in (("input", request.inputs), ("output", request.outputs)):
        for tensor in tensors:
            for name in tensor.parameters:
                if name.startswith("shared_memory_"):
                    raise InvalidArgument(
                        f"{kind} {shown(tensor.name)} asks for shared memory, which this server does not offer; "
                        "send and receive the tensor in the message"
                    )


def _check_outputs(request: Any, voice: str) -> None:
    seen: set[str] = set()
    for output in request.outputs:
        if output.name not in _OUTPUT_NAMES:
            raise InvalidArgument(
                f"unknown output {shown(output.name)}; voice {voice!r} has: {', '.join(_OUTPUT_NAMES)}"
            )
        if output.name in seen:
            raise InvalidArgument(f"output {output.name!r} is requested twice; ask for it once")
        seen.add(output.name)
        for name in output.parameters:
            if name == "classification":
                raise InvalidArgument(
                    f"output {output.name!r} asks for classification; a voice's outputs are no class scores"
                )
            # gRPC answers are always binary, so asking for that changes nothing and is accepted
            if name != "binary_data" or not output.parameters[name].bool_param:
                raise InvalidArgument(f"output {output.name!r} has an unknown parameter {shown(name)}; remove it")


def _check_head(tensor: Any, spec: TensorSpec) -> None:
    for name in tensor.parameters:
        raise InvalidArgument(f"input {spec.name!r} has an unknown parameter {shown(name)}; remove it")
    if tensor.datatype != spec.dtype:
        raise InvalidArgument(f"input {spec.name!r} has datatype {shown(tensor.datatype)}; expected {spec.dtype}")
    shape = list(tensor.shape)
    if shape == list(_SHAPE):
        return
    if len(shape) == len(_SHAPE) and shape[0] > 1 and shape[1] == 1:
        raise InvalidArgument(
            f"input {spec.name!r} has a batch of {shape[0]}, shape {shape}; the limit is 1, shape [1, 1]: "
            "send one request per text, the server batches requests itself"
        )
    raise InvalidArgument(f"input {spec.name!r} has shape {shown(shape)}; expected [1, 1]")


def _raw_element(raw: bytes, spec: TensorSpec) -> Any:
    if spec.dtype == "BYTES":
        if len(raw) < _BYTES_PREFIX.size:
            raise InvalidArgument(
                f"input {spec.name!r} has {len(raw)} bytes; a BYTES element starts with a 4-byte length"
            )
        (length,) = _BYTES_PREFIX.unpack_from(raw)
        held = len(raw) - _BYTES_PREFIX.size
        if length != held:
            raise InvalidArgument(
                f"input {spec.name!r}: its length prefix says {length} bytes, but {held} follow; "
                "it must hold exactly one element"
            )
        return raw[_BYTES_PREFIX.size :]
    layout = _FP32 if spec.dtype == "FP32" else _INT64
    if len(raw) != layout.size:
        raise InvalidArgument(f"input {spec.name!r} has {len(raw)} bytes; one {spec.dtype} element takes {layout.size}")
    return layout.unpack(raw)[0]


def _typed_element(tensor: Any, spec: TensorSpec) -> Any:
    field = _TYPED_FIELD[spec.dtype]
    for descriptor, _ in tensor.contents.ListFields():
        if descriptor.name != field:
            raise InvalidArgument(
                f"input {spec.name!r} holds {descriptor.name}; datatype {spec.dtype} belongs in {field}"
            )
    values = getattr(tensor.contents, field)
    if len(values) != 1:
        raise InvalidArgument(f"input {spec.name!r} holds {len(values)} elements; its shape [1, 1] needs 1")
    return values[0]


def _elements(request: Any, voice: str) -> dict[str, Any]:
    """One value per given input, by name."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidArgument(
            f"raw_input_contents has {len(raw)} entries for {len(request.inputs)} inputs; "
            "give one per input, in the same order"
        )
    values: dict[str, Any] = {}
    for index, tensor in enumerate(request.inputs):
        spec = _INPUTS.get(tensor.name)
        if spec is None:
            raise InvalidArgument(f"unknown input {shown(tensor.name)}; voice {voice!r} takes: {', '.join(_INPUTS)}")
        if spec.name in values:
            raise InvalidArgument(f"input {spec.name!r} is given twice; give it once")
        _check_head(tensor, spec)
        if raw:
            if tensor.contents.ListFields():
                raise InvalidArgument(
                    f"input {spec.name!r} has both typed contents and raw_input_contents; use one of them"
                )
            values[spec.name] = _raw_element(raw[index], spec)
        else:
            values[spec.name] = _typed_element(tensor, spec)
    return values


def _decoded(name: str, value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"input {name!r} is not valid UTF-8: byte {error.start} is 0x{value[error.start]:02x}"
        ) from error
    at = text.find("\0")
    if at >= 0:
        raise InvalidArgument(f"input {name!r} has a NUL character at character {at}; remove it")
    return text


def _check_text(text: str, voice: VoiceEntry) -> None:
    limit = voice.max_text_chars
    if len(text) > limit:
        raise InvalidArgument(
            f"input 'text' has {len(text)} characters; the limit of voice {voice.name!r} is {limit}: "
            "send it in several requests"
        )
    if not text.strip():
        what = "blank" if text else "empty"
        raise InvalidArgument(f"input 'text' is {what}; it must have 1 to {limit} characters that can be spoken")


def _as_fp32(value: float) -> float:
    return float(_FP32.unpack(_FP32.pack(value))[0])


def _check_speed(speed: float, voice: VoiceEntry) -> None:
    # limits are rounded to FP32 as the value was, or a limit such as 0.7 would itself be refused
    if not math.isfinite(speed) or not _as_fp32(voice.speed_min) <= speed <= _as_fp32(voice.speed_max):
        raise InvalidArgument(
            f"input 'speed' is {speed:g}; voice {voice.name!r} takes {voice.speed_min:g} to {voice.speed_max:g}"
        )


def _check_speaker(speaker: str, voice: VoiceEntry) -> None:
    if speaker and speaker not in voice.speakers:
        raise InvalidArgument(f"unknown speaker {shown(speaker)}; voice {voice.name!r} has: {_names(voice.speakers)}")


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise InvalidArgument(f"input 'seed' is {seed}; it must be from 0 to {2**63 - 1}")


def check_voice_request(request: Any, voice: VoiceEntry, seed_source: Callable[[], int] = draw_seed) -> VoiceCall:
    """Check a ``ModelInferRequest`` for a voice and complete it.

    Args:
        request: what the client sent; not changed.
        voice: the voice that it names.
        seed_source: called when the request has no seed.

    Raises:
        InvalidArgument: naming the input and its limit.
        NotFound: a version that does not exist.
    """
    check_voice_version(request.model_version, voice.name)
    parameters = check_voice_parameters(request.parameters)
    refuse_shared_memory(request)
    _check_outputs(request, voice.name)
    values = _elements(request, voice.name)
    if TEXT.name not in values:
        raise InvalidArgument(f"input 'text' is missing; voice {voice.name!r} needs it (BYTES, shape [1, 1])")
    text = _decoded(TEXT.name, values[TEXT.name])
    _check_text(text, voice)
    speed = values.get(SPEED.name, DEFAULT_SPEED)
    _check_speed(speed, voice)
    speaker = _decoded(SPEAKER.name, values.get(SPEAKER.name, b""))
    _check_speaker(speaker, voice)
    seed = values[SEED.name] if SEED.name in values else seed_source()
    _check_seed(seed)
    outputs = [output.name for output in request.outputs]
    complete = voice_request(voice.ensemble, text, speed, speaker, seed, outputs, parameters.forwarded)
    return VoiceCall(complete, text, seed, parameters, speed, speaker)


def _bytes_element(text: str) -> bytes:
    raw = text.encode("utf-8")
    return _BYTES_PREFIX.pack(len(raw)) + raw


def voice_request(
    voice: str,
    text: str,
    speed: float,
    speaker: str,
    seed: int,
    outputs: list[str],
    parameters: dict[str, float | bool],
) -> Any:
    """The ``ModelInferRequest`` that the ensemble of a voice gets: every input, in the contract's order.

    Args:
        voice: model name.
        text: text to speak.
        speed: FP32 value.
        speaker: name, empty for the voice's default.
        seed: INT64 value.
        outputs: names of the outputs that the client wants, empty for all; the edge's own is asked for in any case.
        parameters: values for the stages.
    """
    contents = {
        TEXT.name: _bytes_element(text),
        SPEED.name: _FP32.pack(speed),
        SPEAKER.name: _bytes_element(speaker),
        SEED.name: _INT64.pack(seed),
    }
    request = pb.ModelInferRequest(model_name=voice, raw_input_contents=list(contents.values()))
    for name in contents:
        request.inputs.add(name=name, datatype=_INPUTS[name].dtype, shape=_SHAPE)
    for name in [*outputs, DROPPED.name] if outputs else []:
        request.outputs.add(name=name)
    for name, value in parameters.items():
        set_value(request.parameters[name], value, name)
    return request
