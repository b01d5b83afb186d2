"""An acoustic graph of any make behind the tensors that a voice's acoustic stage has, as one graph.

The graph takes the ids of one segment; the stage takes those of all segments of a request, one behind the other. A
loop around the graph cuts them apart and puts the features together; noise is seeded
(:mod:`voxrepo.importers.generic_noise`), the layout and scale of the features become those of the vocoder.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, compose, helper

from voxrepo.importers.generic_acoustic import Acoustic, scale_values
from voxrepo.importers.generic_noise import NodeWriter, noise_key, without_random_nodes
from voxrepo.importers.generic_source import Tensor
from voxrepo_contract.stage import GraphTensor
from voxrepo_contract.tensors import SPEED_MAX, SPEED_MIN

_INNER = "graph/"


STAGE_INPUTS = (
    GraphTensor(name="phoneme_ids", dtype="INT64", dims=[1, "ids"]),
    GraphTensor(name="segment_lengths", dtype="INT32", dims=[1, "segments"]),
    GraphTensor(name="pause_ms", dtype="INT32", dims=[1, "segments"]),
    GraphTensor(name="speed", dtype="FP32", dims=[1, 1]),
    GraphTensor(name="speaker_id", dtype="INT64", dims=[1, 1]),
    GraphTensor(name="seed", dtype="INT64", dims=[1, 1]),
)
_ELEM_TYPES = {"INT64": TensorProto.INT64, "INT32": TensorProto.INT32, "FP32": TensorProto.FLOAT}


def stage_outputs(channels: int) -> tuple[GraphTensor, ...]:
    """Outputs of the graph that :func:`stage_graph` makes."""
    return (
        GraphTensor(name="features", dtype="FP32", dims=[1, "frames", channels]),
        GraphTensor(name="frame_lengths", dtype="INT32", dims=[1, "segments"]),
        GraphTensor(name="pause_ms", dtype="INT32", dims=[1, "segments"]),
    )


def stage_graph(acoustic: Acoustic, mel_scale: float, mel_shift: float) -> onnx.ModelProto:
    """The graph with the stage's tensors; features are ``mel_scale`` times what the source makes, plus ``mel_shift``.

    Raises:
        ConversionRefused: the source draws random numbers that cannot be seeded.
    """
    inner = compose.add_prefix(acoustic.source.model, _INNER)
    outer = NodeWriter("stage_")
    body, constants = _body(acoustic, inner, mel_scale, mel_shift)
    rows = outer.node("Size", ["segment_lengths"])
    empty = outer.constant(np.zeros((1, 0, acoustic.channels)), np.float32)
    start = outer.constant([0], np.int64)
    go_on = outer.constant(True, np.bool_)
    outer.nodes.append(
        helper.make_node(
            "Loop",
            [rows, go_on, start, empty],
            ["stage_end", "features", "stage_counts"],
            name="segments",
            body=body,
        )
    )
    counts = outer.node("Cast", ["stage_counts"], to=TensorProto.INT32)
    outer.node("Reshape", [counts, outer.constant([1, -1], np.int64)], output="frame_lengths")
    ports = [
        [helper.make_tensor_value_info(t.name, _ELEM_TYPES[t.dtype], t.dims) for t in tensors]
        for tensors in (STAGE_INPUTS, stage_outputs(acoustic.channels))
    ]
    graph = helper.make_graph(
        outer.nodes, "acoustic", ports[0], ports[1], [*outer.constants, *constants, *inner.graph.initializer]
    )
    return helper.make_model(
        graph,
        opset_imports=list(inner.opset_import),
        ir_version=acoustic.source.model.ir_version,
        functions=list(inner.functions),
        producer_name="voxrepo",
    )


def _body(
    acoustic: Acoustic, inner: onnx.ModelProto, mel_scale: float, mel_shift: float
) -> tuple[onnx.GraphProto, list[TensorProto]]:
    w = NodeWriter("segment_")
    one = w.constant([1], np.int64)
    row = w.constant([-1], np.int64)
    index = w.node("Reshape", ["segment_number", one])
    lengths = w.node("Cast", [w.node("Reshape", ["segment_lengths", row])], to=TensorProto.INT64)
    # a segment without ids, as a warm-up on zeros has it, is run on one id
    length = w.node("Max", [w.node("Gather", [lengths, index]), one])
    end = w.node("Add", ["segment_start", length])
    flat = w.node("Reshape", ["phoneme_ids", row])
    ids = w.node("Slice", [flat, "segment_start", end])
    count = w.node("Reshape", [w.node("Size", [ids]), one])
    key = noise_key(w, "seed", ids)
    _set_inputs(w, acoustic, ids, count)
    nodes, noise_constants = without_random_nodes(inner.graph.node, key, "segment_")
    head = list(w.nodes)
    w.nodes = []
    features = _set_outputs(w, acoustic, mel_scale, mel_shift)
    frames = w.node("Gather", [w.node("Shape", [features]), w.constant(1, np.int64)])
    joined = w.node("Concat", ["segment_features", features], axis=1)
    w.node("Identity", ["segment_go_on"], output="segment_goes_on")
    value = helper.make_tensor_value_info
    channels = acoustic.channels
    body = helper.make_graph(
        [*head, *nodes, *w.nodes],
        "segment",
        [
            value("segment_number", TensorProto.INT64, []),
            value("segment_go_on", TensorProto.BOOL, []),
            value("segment_start", TensorProto.INT64, [1]),
            value("segment_features", TensorProto.FLOAT, [1, None, channels]),
        ],
        [
            value("segment_goes_on", TensorProto.BOOL, []),
            value(end, TensorProto.INT64, [1]),
            value(joined, TensorProto.FLOAT, [1, None, channels]),
            value(frames, TensorProto.INT64, []),
        ],
    )
    return body, [*w.constants, *noise_constants]


def _set_inputs(w: NodeWriter, acoustic: Acoustic, ids: str, count: str) -> None:
    roles, scales = acoustic.roles, acoustic.scales

    def give(tensor: Tensor, value: str) -> None:
        shape = [1] * len(tensor.dims)
        if tensor in {roles.ids, roles.scales}:
            shape = [1, -1][-len(tensor.dims) :]
        cast = w.node("Cast", [value], to=tensor.elem_type)
        w.node("Reshape", [cast, w.constant(shape, np.int64)], output=_INNER + tensor.name)

    speed = w.node("Reshape", ["speed", w.constant([1], np.int64)])
    # a warm-up gives zeros; requests are held to this range before
    speed = w.node("Max", [speed, w.constant([SPEED_MIN], np.float32)])
    speed = w.node("Min", [speed, w.constant([SPEED_MAX], np.float32)])
    base = w.constant([scales.length_scale], np.float32)
    grows = acoustic.duration_grows is not False
    duration = w.node("Div", [base, speed]) if grows else w.node("Mul", [base, speed])
    give(roles.ids, ids)
    if roles.lengths is not None:
        give(roles.lengths, count)
    if roles.speaker is not None:
        give(roles.speaker, "speaker_id")
    if roles.duration is not None:
        give(roles.duration, duration)
    if roles.scales is not None:
        values = scale_values(roles.scales, scales)
        parts = [w.constant([value], np.float32) for value in values]
        parts[1] = duration
        give(roles.scales, w.node("Concat", parts, axis=0))
    for tensor, value in ((roles.noise_scale, scales.noise_scale), (roles.noise_w, scales.noise_w)):
        if tensor is not None:
            give(tensor, w.constant([value], np.float32))
    for tensor in roles.neutral:
        give(tensor, w.constant([1], np.float32))
    by_name = {tensor.name: tensor for tensor in acoustic.source.inputs}
    for name, value in roles.constants.items():
        give(by_name[name], w.constant([value], np.float32))


def _set_outputs(w: NodeWriter, acoustic: Acoustic, mel_scale: float, mel_shift: float) -> str:
    """Name of the features FP32 [1, frames, C] of a segment."""
    value = w.node("Cast", [_INNER + acoustic.features.name], to=TensorProto.FLOAT)
    if acoustic.rank == 2:
        shape = w.node("Concat", [w.constant([1], np.int64), w.node("Shape", [value])], axis=0)
        value = w.node("Reshape", [value, shape])
    if acoustic.time_axis == 2:
        value = w.node("Transpose", [value], perm=[0, 2, 1])
    if acoustic.frames is not None:
        counted = w.node("Cast", [_INNER + acoustic.frames.name], to=TensorProto.INT64)
        counted = w.node("Reshape", [counted, w.constant([1], np.int64)])
        value = w.node("Slice", [value, w.constant([0], np.int64), counted, w.constant([1], np.int64)])
    if (mel_scale, mel_shift) != (1.0, 0.0):
        value = w.node("Mul", [value, w.constant(mel_scale, np.float32)])
        value = w.node("Add", [value, w.constant(mel_shift, np.float32)])
    return value
