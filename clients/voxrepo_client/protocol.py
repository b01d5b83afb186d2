"""What is sent and what comes back, free of any transport.

Model ``<voice>`` of the Open Inference Protocol. Shapes include the batch axis, which is always 1.

| tensor | dtype, shape | |
|---|---|---|
| in ``text`` | BYTES [1, 1] | UTF-8 |
| in ``speed`` | FP32 [1, 1] | |
| in ``speaker`` | BYTES [1, 1] | left out when not given |
| in ``seed`` | INT64 [1, 1] | left out when not given |
| out ``audio`` | INT16 [1, N] | |
| out ``sample_rate`` | INT32 [1, 1] | Hz |

Limits (length of the text, range of the speed, names of speakers) are the server's to judge; only what cannot be
put on the wire is refused here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo_client.errors import BadResponse, InvalidRequest
from voxrepo_client.speech import Speech

DTYPES: Mapping[str, str] = {"text": "BYTES", "speed": "FP32", "speaker": "BYTES", "seed": "INT64"}
"""Open Inference Protocol data types of the inputs."""

FINAL_PARAMETER = "triton_final_response"
"""Of an answer in a stream: whether it is the last."""


MAX_TIMEOUT_S = 7 * 24 * 3600.0
"""Longest time limit; no request runs for a week, and timers of the transports overflow somewhere above."""


@dataclass(frozen=True)
class InferCall:
    """One request.

    Attributes:
        model: name of the voice.
        inputs: arrays by tensor name; keys of :data:`DTYPES`.
        parameters: request parameters.
    """

    model: str
    inputs: Mapping[str, npt.NDArray[Any]]
    parameters: Mapping[str, float | bool]


@dataclass(frozen=True)
class InferAnswer:
    """One response.

    Attributes:
        outputs: arrays by tensor name.
        parameters: response parameters as plain Python values.
    """

    outputs: Mapping[str, npt.NDArray[Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)


def _utf8(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be a str, not {type(value).__name__}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"{name} holds the lone surrogate U+{ord(value[error.start]):04X} at character {error.start}, "
            "which UTF-8 cannot express; decode the source text correctly"
        ) from error


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidRequest(f"{name} must be a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError as error:
        raise InvalidRequest(f"{name} is too large for a floating-point number") from error


def _seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidRequest(f"seed must be an integer, not {type(value).__name__}")
    if not -(2**63) <= value < 2**63:
        raise InvalidRequest(f"seed {value} does not fit into 64 bits with sign")
    return int(value)


def _one(value: object, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.array([[value]], dtype=dtype)


def build_call(
    voice: str,
    text: str,
    *,
    speed: float = 1.0,
    speaker: str | None = None,
    seed: int | None = None,
    noise_scale: float | None = None,
    noise_w_scale: float | None = None,
    normalise: bool | None = None,
) -> InferCall:
    """The request for one text.

    Raises:
        InvalidRequest: a value has the wrong type or cannot be expressed on the wire.
    """
    if not isinstance(voice, str) or not voice:
        raise InvalidRequest("voice must be the name of a voice, such as 'en-joe'")
    inputs: dict[str, npt.NDArray[Any]] = {"text": _one(_utf8("text", text), object)}
    with np.errstate(over="ignore"):
        inputs["speed"] = _one(_number("speed", speed), np.float32)
    if speaker is not None:
        inputs["speaker"] = _one(_utf8("speaker", speaker), object)
    if seed is not None:
        inputs["seed"] = _one(_seed(seed), np.int64)
    parameters: dict[str, float | bool] = {}
    for name, value in (("noise_scale", noise_scale), ("noise_w_scale", noise_w_scale)):
        if value is None:
            continue
        number = _number(name, value)
        if not math.isfinite(number):  # JSON has no word for it
            raise InvalidRequest(f"{name} is {number}; it must be finite")
        parameters[name] = number
    if normalise is not None:
        if not isinstance(normalise, bool):
            raise InvalidRequest(f"normalise must be a bool, not {type(normalise).__name__}")
        parameters["normalise"] = normalise
    return InferCall(voice, inputs, parameters)


def check_timeout_s(timeout_s: float | None) -> float | None:
    """``timeout_s`` as a float.

    Raises:
        InvalidRequest: it is not a positive number of seconds.
    """
    if timeout_s is None:
        return None
    seconds = _number("timeout_s", timeout_s)
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise InvalidRequest(
            f"timeout_s is {seconds:g}; give seconds above 0 and up to {MAX_TIMEOUT_S:g}, or None for no limit"
        )
    return seconds


def timeout_us(timeout_s: float | None) -> int | None:
    """The server-side deadline: the request parameter ``timeout``, whole microseconds, at least 1."""
    return None if timeout_s is None else max(1, round(timeout_s * 1e6))


def parse_answer(answer: InferAnswer) -> Speech:
    """The speech in a response.

    Raises:
        BadResponse: tensors are missing or not as described above.
    """
    audio, rate = answer.outputs.get("audio"), answer.outputs.get("sample_rate")
    if audio is None or rate is None:
        missing = "audio" if audio is None else "sample_rate"
        raise BadResponse(f"the answer has no output {missing!r}; is this model a voice?")
    if audio.dtype != np.int16 or audio.ndim not in (1, 2) or (audio.ndim == 2 and audio.shape[0] != 1):
        raise BadResponse(f"the output 'audio' is {audio.dtype} {list(audio.shape)}; expected int16 [1, N]")
    if rate.size != 1 or rate.dtype.kind not in "iu" or not 0 < int(rate.reshape(-1)[0]) <= 768_000:
        raise BadResponse(f"the output 'sample_rate' is {rate.tolist()}; expected one positive number of Hz")
    seed = answer.parameters.get("seed")
    if seed is not None and not isinstance(seed, int):
        raise BadResponse(f"'seed' is {seed!r}; expected an integer")
    return Speech(
        # a copy: what the transports hand over is a read-only view into the whole answer
        samples=np.array(audio.reshape(-1), dtype=np.int16),
        sample_rate_hz=int(rate.reshape(-1)[0]),
        seed=seed,
        versions=parse_versions(answer.parameters.get("versions")),
        dropped=parse_dropped(answer.parameters.get("dropped")),
    )


def parse_versions(value: object) -> dict[str, int]:
    """Stage versions from their JSON form, e.g. ``{"acoustic": 3}``; empty where the server does not send them.

    Raises:
        BadResponse: it is not a JSON object of integers.
    """
    return _integers("versions", value)


def parse_dropped(value: object) -> dict[str, int]:
    """Characters not spoken, by reason, from their JSON form, e.g. ``{"emoji": 2}``; empty where not sent.

    Raises:
        BadResponse: it is not a JSON object of integers.
    """
    return _integers("dropped", value)


def _integers(name: str, value: object) -> dict[str, int]:
    if value is None or value == "":
        return {}
    try:
        parsed: Any = json.loads(value) if isinstance(value, str) else value
        return {str(key): int(number) for key, number in parsed.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BadResponse(f"{name!r} is {value!r}; expected a JSON object of integers") from error
