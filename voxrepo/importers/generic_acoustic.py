"""An acoustic graph of any make, understood: the roles of its tensors, its layout, what its speed does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from voxrepo.importers.generic_roles import Roles, find_features, find_frames, find_roles
from voxrepo.importers.generic_source import Source, Tensor, embedding_rows, open_source
from voxrepo.importers.onnx_run import run
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]

_TRIED_IDS = (24, 48)
_FEW_ROWS = 10
"""Ids below this are tried where the graph does not tell how many it knows."""
_SEED = 1
_TRIED_STRETCH = 2.0
_MIN_STRETCH = 1.15
_NUMPY: dict[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT64: np.int64,
    TensorProto.INT32: np.int32,
}


@dataclass(frozen=True)
class Scales:
    """Fixed values of inputs that shape how the voice speaks.

    Attributes:
        noise_scale: of the features.
        noise_w: of the durations.
        length_scale: of the durations at speed 1.
    """

    noise_scale: float = 0.667
    noise_w: float = 0.8
    length_scale: float = 1.0


@dataclass(frozen=True)
class Acoustic:
    """An acoustic graph that was understood.

    Attributes:
        source: the file.
        roles: of its inputs.
        scales: fixed values.
        features: the output that goes to the vocoder.
        frames: the output that counts true frames, if there is one.
        time_axis: of the features, after a missing batch axis was added: 1 or 2.
        rank: of the features as they come, 2 or 3.
        channels: of the features.
        duration_grows: whether a larger value of the duration input means slower speech; ``None`` without that input.
    """

    source: Source
    roles: Roles
    scales: Scales
    features: Tensor
    frames: Tensor | None
    time_axis: int
    rank: int
    channels: int
    duration_grows: bool | None


def understand(
    source: Source,
    said_inputs: Mapping[str, str],
    said_outputs: Mapping[str, str],
    constants: Mapping[str, float],
    scales: Scales,
    channels: int | None,
) -> Acoustic:
    """Find the roles of all tensors, some of them by running the graph.

    Args:
        source: the graph.
        said_inputs: roles that the user says, by tensor.
        said_outputs: likewise.
        constants: values that the user says, by tensor.
        scales: values for inputs of these roles.
        channels: of the vocoder's input, if they are known before it runs.

    Raises:
        InvalidArgument: what the user says does not fit the graph.
        ConversionRefused: the graph is not understood, or does not run.
    """
    roles = find_roles(source, said_inputs, constants)
    given = [tensor for tensor in source.inputs if tensor.name in roles.constants]
    session = open_source(source)

    rows = embedding_rows(source, roles.ids.name) or _FEW_ROWS
    # without noise, so that what changes is what was changed
    quiet = replace(scales, noise_scale=0.0, noise_w=0.0)
    some = np.random.default_rng(_SEED).integers(0, rows, max(_TRIED_IDS))

    def run_with(ids: int, stretch: float) -> dict[str, Array]:
        return run(session, _feeds(roles, given, quiet, some[:ids], stretch), source.file.name)

    short, long = (run_with(ids, 1.0) for ids in _TRIED_IDS)
    ranks = {name: value.ndim for name, value in short.items()}
    features = find_features(source, said_outputs, channels, ranks)
    time_axis, width = _layout(source, features, short[features.name], long[features.name], channels)
    acoustic = Acoustic(
        source,
        roles,
        scales,
        features,
        find_frames(source, said_outputs),
        time_axis,
        ranks[features.name],
        width,
        None,
    )
    if roles.duration is None and roles.scales is None:
        return acoustic
    before = _frames(acoustic, long)
    after = _frames(acoustic, run_with(_TRIED_IDS[1], _TRIED_STRETCH))
    if after >= before * _MIN_STRETCH:
        return replace(acoustic, duration_grows=True)
    if before >= after * _MIN_STRETCH:
        return replace(acoustic, duration_grows=False)
    what = roles.duration or roles.scales
    raise ConversionRefused(
        f"{source.file}: the input {what} is to set the speed, but {before} frames became {after} at "
        f"{_TRIED_STRETCH:g} times its value; give it a fixed value with --set {what.name if what else ''}=1"
    )


def _feeds(roles: Roles, given: Sequence[Tensor], scales: Scales, ids: Array, stretch: float) -> dict[str, Array]:
    def shaped(tensor: Tensor, value: Any) -> Array:
        dtype = _NUMPY[tensor.elem_type]
        return np.asarray(value, dtype).reshape((1,) * len(tensor.dims))

    feeds = {roles.ids.name: ids.astype(_NUMPY[roles.ids.elem_type]).reshape((1, -1)[-len(roles.ids.dims) :])}
    if roles.lengths is not None:
        feeds[roles.lengths.name] = shaped(roles.lengths, ids.size)
    if roles.speaker is not None:
        feeds[roles.speaker.name] = shaped(roles.speaker, 0)
    if roles.duration is not None:
        feeds[roles.duration.name] = shaped(roles.duration, scales.length_scale * stretch)
    for tensor, value in ((roles.noise_scale, scales.noise_scale), (roles.noise_w, scales.noise_w)):
        if tensor is not None:
            feeds[tensor.name] = shaped(tensor, value)
    for tensor in roles.neutral:
        feeds[tensor.name] = shaped(tensor, 1)
    if roles.scales is not None:
        values = scale_values(roles.scales, scales)
        values[1] *= stretch
        feeds[roles.scales.name] = np.asarray(values, _NUMPY[roles.scales.elem_type])
    for tensor in given:
        feeds[tensor.name] = shaped(tensor, roles.constants[tensor.name])
    return feeds


def scale_values(tensor: Tensor, scales: Scales) -> list[float]:
    """Values of an input ``scales``: noise, length and, of three, noise of durations, as VITS and Matcha exports have.

    Raises:
        ConversionRefused: it has another number of values.
    """
    count = tensor.dims[0] or 3
    if count not in {2, 3}:
        raise ConversionRefused(
            f"the input {tensor} has {count} values; 2 (noise, length) or 3 (and noise_w) are known"
        )
    return [scales.noise_scale, scales.length_scale, scales.noise_w][:count]


def _layout(source: Source, tensor: Tensor, short: Array, long: Array, channels: int | None) -> tuple[int, int]:
    """(time axis of three, channels)."""
    if short.ndim == 2:
        short, long = short[None], long[None]
    differ = [axis for axis in (1, 2) if short.shape[axis] != long.shape[axis]]
    if len(differ) != 1:
        if channels is not None and (short.shape[1] == channels) != (short.shape[2] == channels):
            time = 2 if short.shape[1] == channels else 1
            return time, channels
        raise ConversionRefused(
            f"{source.file}: which axis of {tensor} is time cannot be told: it is {list(short.shape)} for "
            f"{_TRIED_IDS[0]} ids and {list(long.shape)} for {_TRIED_IDS[1]}"
        )
    time = differ[0]
    width = int(short.shape[3 - time])
    if width == 1:
        raise ConversionRefused(
            f"{source.file}: its output {tensor} is audio already, so that there is nothing for a vocoder to do; a "
            "VITS graph that ends in audio is imported with 'voxrepo voice import piper'"
        )
    return time, width


def _frames(acoustic: Acoustic, outputs: Mapping[str, Array]) -> int:
    value = outputs[acoustic.features.name]
    value = value[None] if value.ndim == 2 else value
    return int(value.shape[acoustic.time_axis])
