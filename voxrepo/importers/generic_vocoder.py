"""A vocoder of any make as the ``generator`` of the windowed program: features [batch, C, frames] to audio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

from voxrepo.importers.extract import Port
from voxrepo.importers.generic_source import Source, Tensor, open_source
from voxrepo.importers.graph import normalise
from voxrepo.importers.onnx_run import max_diff, open_session, run
from voxrepo.importers.proof_host import windows
from voxrepo.importers.proof_result import WINDOW_TOLERANCE
from voxrepo.importers.receptive_field import receptive_field
from voxrepo_contract.errors import ConversionRefused

Array = npt.NDArray[Any]

_INNER = "graph/"
_TRIED_FRAMES = (64, 96)
_SHAPE_ONLY = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
MAX_OVERLAP_FRAMES = 128
"""A vocoder that hears further than this to each side cannot be run in windows worth having."""
_MEASURED_FRAMES = 4 * MAX_OVERLAP_FRAMES
_HEARD = 1e-6
"""Change of a sample, full scale 1, from which on a frame counts as heard there."""


@dataclass(frozen=True)
class Vocoder:
    """A vocoder that was understood, as a :class:`voxrepo.importers.stage_files.GraphPiece`.

    Attributes:
        source: the file.
        model: the graph ``generator``.
        inputs: ``features`` [batch, C, frames]; the batch is 1 where the graph takes no more.
        outputs: ``audio`` [batch, 1, samples].
        channels: C.
        hop_length_samples: samples per frame.
        min_frames: a shorter sequence does not run.
        takes_batches: whether the batch axis is free.
    """

    source: Source
    model: onnx.ModelProto
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    channels: int
    hop_length_samples: int
    min_frames: int
    takes_batches: bool

    def speaker(self) -> Callable[[Array], Array]:
        """Runs it: features FP32 [1, C, frames] to audio FP32 [samples]."""
        session = open_session(self.model)
        return lambda features: np.asarray(
            run(session, {"features": features}, self.source.file.name)["audio"], np.float32
        ).reshape(-1)


def find_vocoder_tensors(source: Source) -> tuple[Tensor, Tensor]:
    """(features, audio) of a vocoder.

    Raises:
        ConversionRefused: it is not the graph of a vocoder; with what it is, as far as that can be told.
    """
    if any(tensor.is_int for tensor in source.inputs):
        raise ConversionRefused(
            f"{source.file}: it takes whole numbers, and a vocoder takes features only; were --acoustic and --vocoder "
            f"given the wrong way round? ({source.described()})"
        )
    if len(source.inputs) != 1 or not source.inputs[0].is_float or len(source.inputs[0].dims) not in {0, 2, 3}:
        raise ConversionRefused(
            f"{source.file}: a vocoder here has one input, features [batch, bands, frames] or [batch, frames, bands]; "
            f"this one has {source.described()}"
        )
    outputs = [tensor for tensor in source.outputs if tensor.is_float or tensor.elem_type == TensorProto.INT16]
    named = [t for t in outputs if t.name.rsplit("/", maxsplit=1)[-1].lower() in {"audio", "wav", "waveform", "y"}]
    chosen = named if len(named) == 1 else outputs
    if len(chosen) != 1:
        raise ConversionRefused(
            f"{source.file}: a vocoder here has one output, the waveform; this one has {source.described()}. One that "
            "gives a spectrum must be exported with its inverse transform"
        )
    return source.inputs[0], chosen[0]


def understand_vocoder(source: Source, channels: int | None) -> Vocoder:
    """Find layout, hop and limits of a vocoder, by its shapes and by running it.

    Args:
        source: the graph.
        channels: of the acoustic graph's features, where the vocoder does not tell its own.

    Raises:
        ConversionRefused: it is not a vocoder, does not run, or does not make a whole number of samples per frame.
    """
    features, audio = find_vocoder_tensors(source)
    layout = vocoder_layout(source, features, channels)
    if layout is None:
        raise ConversionRefused(
            f"{source.file}: how many bands its input {features} has is not told by the file; give an acoustic graph "
            "whose output says it, or --channels"
        )
    width, time_axis = layout
    model = _canonical(source, features, audio, width, time_axis)
    session = open_session(model)

    def samples(frames: int, batch: int = 1) -> int:
        noise = np.random.default_rng(1).standard_normal((batch, width, frames), dtype=np.float32)
        made = run(session, {"features": noise}, source.file.name)["audio"]
        return int(made.size if made.shape[0] == batch else -1)

    few, more = (samples(frames) for frames in _TRIED_FRAMES)
    hop, rest = divmod(more - few, _TRIED_FRAMES[1] - _TRIED_FRAMES[0])
    if rest or hop < 2 or few != hop * _TRIED_FRAMES[0]:
        raise ConversionRefused(
            f"{source.file}: it makes {few} samples of {_TRIED_FRAMES[0]} frames and {more} of {_TRIED_FRAMES[1]}; a "
            "vocoder makes the same whole number of samples of every frame (export it without trimming or padding the "
            "ends), and an acoustic graph is given as --acoustic"
        )
    batched = _runs(lambda: samples(_TRIED_FRAMES[0], 2), 2 * few)
    least = next((n for n in range(1, _TRIED_FRAMES[0]) if _runs(lambda n=n: samples(n), n * hop)), _TRIED_FRAMES[0])  # type: ignore[misc]
    batch = "batch" if batched else 1
    return Vocoder(
        source,
        model,
        (Port("features", "features", TensorProto.FLOAT, (batch, width, "frames")),),
        (Port("audio", "audio", TensorProto.FLOAT, (batch, 1, "samples")),),
        width,
        hop,
        least,
        batched,
    )


def _runs(call: Callable[[], int], wanted: int) -> bool:
    try:
        return call() == wanted
    except ConversionRefused:
        return False


def vocoder_layout(source: Source, features: Tensor, channels: int | None) -> tuple[int, int] | None:
    """(bands, time axis of three), ``None`` if the number of bands is not known.

    Raises:
        ConversionRefused: the file has other bands than the acoustic graph.
    """
    dims = features.dims[-2:]
    fixed = [dim for dim in dims if dim is not None]
    if channels is not None and channels in fixed:
        return channels, 2 if dims[0] == channels else 1
    if len(fixed) == 1:
        return fixed[0], 2 if dims[0] is not None else 1
    if len(fixed) == 2 and channels is not None:
        raise ConversionRefused(
            f"{source.file}: its input {features} has no axis of {channels}, the bands of the acoustic graph, and no "
            "axis that varies; export it with a dynamic axis of time"
        )
    if channels is None:
        return None
    for time_axis in (2, 1):
        shape = [1, channels, 32] if time_axis == 2 else [1, 32, channels]
        try:
            run(
                open_source(source),
                {features.name: np.zeros(shape[-len(features.dims) or None :], np.float32)},
                source.file.name,
            )
        except ConversionRefused:
            continue
        return channels, time_axis
    raise ConversionRefused(
        f"{source.file}: it does not run on features of {channels} bands, as the acoustic graph makes them; this "
        "vocoder was made for other features"
    )


def _canonical(source: Source, features: Tensor, audio: Tensor, channels: int, time_axis: int) -> onnx.ModelProto:
    inner = compose.add_prefix(source.model, _INNER)
    head, tail = [], []
    value, constants = "features", []

    def constant(name: str, array: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    if time_axis == 1:
        head.append(helper.make_node("Transpose", [value], ["features_by_time"], perm=[0, 2, 1]))
        value = "features_by_time"
    if len(features.dims) == 2:
        shape = [-1, channels] if time_axis == 1 else [channels, -1]
        head.append(
            helper.make_node("Reshape", [value, constant("flat", np.array(shape, np.int64))], ["features_flat"])
        )
        value = "features_flat"
    head.append(helper.make_node("Cast", [value], [_INNER + features.name], to=features.elem_type))
    value = _INNER + audio.name
    tail.append(helper.make_node("Cast", [value], ["audio_as_made"], to=TensorProto.FLOAT))
    value = "audio_as_made"
    if audio.elem_type == TensorProto.INT16:
        tail.append(helper.make_node("Div", [value, constant("full_scale", np.float32(32768))], ["audio_scaled"]))
        value = "audio_scaled"
    batch = 0 if len(features.dims) != 2 and len(audio.dims) > 1 else 1
    audio_shape = constant("audio_shape", np.array([batch, 1, -1], np.int64))
    tail.append(helper.make_node("Reshape", [value, audio_shape], ["audio"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [*head, *inner.graph.node, *tail],
        "generator",
        [info("features", TensorProto.FLOAT, ["batch", channels, "frames"])],
        [info("audio", TensorProto.FLOAT, ["batch", 1, "samples"])],
        [*constants, *inner.graph.initializer],
    )
    return helper.make_model(
        graph,
        opset_imports=list(inner.opset_import),
        ir_version=source.model.ir_version,
        functions=list(inner.functions),
        producer_name="voxrepo",
    )


def overlap_of(vocoder: Vocoder, features: Array) -> tuple[int, str]:
    """How far a frame is heard to each side, and how that was found: from the graph, or by changing a frame.

    Args:
        vocoder: it is about.
        features: FP32 [1, C, frames] of speech, for what is not found from the graph.

    Raises:
        ConversionRefused: every frame is heard everywhere.
    """
    try:
        graph = normalise(vocoder.model)
        waveform = graph.up(graph.outputs[0], _SHAPE_ONLY)
        start = "features"
        while len(used := graph.consumers.get(start, [])) == 1 and used[0].op_type in _SHAPE_ONLY:
            start = used[0].output[0]
        field = receptive_field(graph, start, waveform)
        if field.hop_length_samples == vocoder.hop_length_samples:
            return field.overlap_frames, "computed from the graph"
    except (ConversionRefused, KeyError):
        pass  # measured instead
    return _measured_overlap(vocoder, features), "measured by changing frames"


def _measured_overlap(vocoder: Vocoder, features: Array) -> int:
    speak = vocoder.speaker()
    hop = vocoder.hop_length_samples
    repeats = -(-_MEASURED_FRAMES // features.shape[2])
    long = np.tile(features, (1, 1, repeats))[:, :, :_MEASURED_FRAMES]
    before = speak(long)
    reach = 0
    for middle in (_MEASURED_FRAMES // 2 - 1, _MEASURED_FRAMES // 2 + 2):
        for change in (3.0, -3.0):
            changed = long.copy()
            changed[:, :, middle] += np.float32(change)
            heard = np.flatnonzero(np.abs(speak(changed) - before) > _HEARD) // hop
            if heard.size:
                reach = max(reach, middle - int(heard[0]), int(heard[-1]) - middle)
    if reach > MAX_OVERLAP_FRAMES:
        raise ConversionRefused(
            f"{vocoder.source.file}: changing one frame is heard {reach} frames away, so that it cannot be run in "
            f"windows (up to {MAX_OVERLAP_FRAMES} frames are possible); does it normalise over time?"
        )
    return reach


def prove_windows(vocoder: Vocoder, features: list[Array], window: int, overlap: int) -> float:
    """Largest difference of a sample between windows and whole utterances.

    Raises:
        ConversionRefused: it is above ``WINDOW_TOLERANCE``.
    """
    speak, hop = vocoder.speaker(), vocoder.hop_length_samples
    worst = 0.0
    for one in features:
        whole = speak(one)
        kept = [
            speak(np.ascontiguousarray(one[:, :, w.start : w.stop]))[
                (w.keep_from - w.start) * hop : (w.keep_to - w.start) * hop
            ]
            for w in windows(one.shape[2], window, overlap)
        ]
        worst = max(worst, max_diff(np.concatenate(kept), whole))
    if not worst <= WINDOW_TOLERANCE:
        raise ConversionRefused(
            f"{vocoder.source.file}: audio made in windows of {window} frames with {overlap} of overlap differs from "
            f"that of the whole by {worst:.2g}, at most {WINDOW_TOLERANCE:g} is allowed; it hears further than found"
        )
    return worst
