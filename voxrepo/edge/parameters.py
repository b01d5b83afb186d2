"""Request parameters as plain values, and the ones that voices understand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.tensors import NOISE_SCALE_MAX, VOICE_INPUTS

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
UINT64_MAX = 2**64 - 1

ROUTING_KEY_MAX_CHARS = 256
EMPTY_FINAL_PARAMETER = "triton_enable_empty_final_response"
"""Sent by Triton's C++ client with every request. It asks for an empty last response where a request has several
answers, as those to a voice's stream; where it has exactly one, there is nothing to add and it changes nothing."""

VOICE_PARAMETERS = (
    "arm",
    "binary_data_output",
    "noise_scale",
    "noise_w_scale",
    "normalise",
    "priority",
    "routing_key",
    "timeout",
)
"""Parameters that a voice accepts; any other one is refused, so that none is ignored silently."""

Scalar = bool | int | float | str


def shown(value: object, limit: int = 64) -> str:
    """``repr`` of a client's value, cut so that an error text stays readable."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def plain_value(parameter: Any) -> Scalar | None:
    """Value of an ``InferParameter`` message; None where no choice is set."""
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def set_value(parameter: Any, value: object, name: str) -> None:
    """Store a plain value in an ``InferParameter`` message.

    Raises:
        InvalidArgument: the value is not a bool, number or string, or does not fit 64 bits.
    """
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        if INT64_MIN <= value <= INT64_MAX:
            parameter.int64_param = value
        elif 0 <= value <= UINT64_MAX:
            parameter.uint64_param = value
        else:
            raise InvalidArgument(f"parameter {shown(name)} does not fit a 64-bit integer")
    elif isinstance(value, float):
        parameter.double_param = value
    elif isinstance(value, str):
        try:
            parameter.string_param = value
        except (UnicodeEncodeError, ValueError) as error:
            raise InvalidArgument(f"parameter {shown(name)} is not valid Unicode") from error
    else:
        kind = {list: "an array", dict: "an object", type(None): "null"}.get(type(value), "of an unknown type")
        raise InvalidArgument(f"parameter {shown(name)} is {kind}; a parameter is a bool, a number or a string")


def timeout_us_of(parameters: Mapping[str, Any]) -> int | None:
    """The time limit in the parameter ``timeout``, in microseconds; None where absent or 0.

    Args:
        parameters: map of ``InferParameter`` messages.

    Raises:
        InvalidArgument: not a whole number, or negative.
    """
    if "timeout" not in parameters:
        return None
    value = plain_value(parameters["timeout"])
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise InvalidArgument(
            f"parameter 'timeout' is {shown(value)}; it must be a whole number of microseconds, 0 for no limit"
        )
    return value or None


@dataclass(frozen=True)
class VoiceParameters:
    """Checked parameters of a voice request.

    Attributes:
        timeout_us: the caller's time limit, None for none.
        routing_key: key of a sticky assignment to a rollout arm.
        forwarded: what the stages read (numbers ``noise_scale``, ``noise_w_scale``; bool ``normalise``).
    """

    timeout_us: int | None = None
    routing_key: str | None = None
    forwarded: dict[str, float | bool] = field(default_factory=dict)


def empty_final_flag(value: object) -> bool:
    """The value of :data:`EMPTY_FINAL_PARAMETER`.

    Raises:
        InvalidArgument: it is not a bool.
    """
    if not isinstance(value, bool):
        raise InvalidArgument(f"parameter {EMPTY_FINAL_PARAMETER!r} is {shown(value)}; it must be true or false")
    return value


def _noise(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(
            f"parameter {name!r} is {shown(value)}; it must be a number from 0 to {NOISE_SCALE_MAX:g}"
        )
    number = float(value)
    if not math.isfinite(number) or not 0 <= number <= NOISE_SCALE_MAX:
        raise InvalidArgument(f"parameter {name!r} is {number:g}; it must be from 0 to {NOISE_SCALE_MAX:g}")
    return number


def _normalise(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"parameter 'normalise' is {shown(value)}; it must be true or false, a bool")
    return value


def _routing_key(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= ROUTING_KEY_MAX_CHARS:
        raise InvalidArgument(
            f"parameter 'routing_key' is {shown(value)}; it must be a string of 1 to {ROUTING_KEY_MAX_CHARS} characters"
        )
    return value


def _arm(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"parameter 'arm' is {shown(value)}; it must be the name of an arm")
    return value


def routing_key_of(parameters: Mapping[str, Any]) -> str:
    """The parameter ``routing_key``, which must be there.

    Raises:
        InvalidArgument: it is no string of an allowed length.
    """
    return _routing_key(plain_value(parameters["routing_key"]))


def arm_of(parameters: Mapping[str, Any]) -> str:
    """The parameter ``arm``, which must be there: a name or a label, not checked against those that exist.

    Raises:
        InvalidArgument: it is no string, or empty.
    """
    return _arm(plain_value(parameters["arm"]))


def check_voice_parameters(parameters: Mapping[str, Any]) -> VoiceParameters:
    """Check the parameters of a request for a voice; whether an arm exists is seen where it is assigned.

    Args:
        parameters: map of ``InferParameter`` messages.

    Raises:
        InvalidArgument: an unknown parameter, or a value out of range.
    """
    forwarded: dict[str, float | bool] = {}
    routing_key = None
    for name in sorted(parameters):
        value = plain_value(parameters[name])
        if name in ("noise_scale", "noise_w_scale"):
            forwarded[name] = _noise(name, value)
        elif name == "normalise":
            forwarded[name] = _normalise(value)
        elif name == "routing_key":
            routing_key = _routing_key(value)
        elif name == "arm":
            _arm(value)
        elif name == "priority":
            if isinstance(value, bool) or value != 0:
                raise InvalidArgument("parameter 'priority' is not supported by voices; leave it out")
        elif name == "binary_data_output":
            # HTTP bodies are decoded before this check, so only gRPC calls come here, and those are always binary
            if value is not True:
                raise InvalidArgument("parameter 'binary_data_output' must be true here; gRPC answers are binary")
        elif name == EMPTY_FINAL_PARAMETER:
            empty_final_flag(value)
        elif name != "timeout":
            raise InvalidArgument(
                f"unknown parameter {shown(name)}; a voice has the inputs {', '.join(t.name for t in VOICE_INPUTS)} "
                f"and the parameters {', '.join(VOICE_PARAMETERS)}"
            )
    return VoiceParameters(timeout_us_of(parameters), routing_key, forwarded)
