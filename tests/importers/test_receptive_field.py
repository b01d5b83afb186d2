from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from voxrepo.importers.graph import normalise
from voxrepo.importers.onnx_file import load_graph
from voxrepo.importers.receptive_field import receptive_field
from voxrepo.importers.vits_cut import find_cut
from voxrepo_contract.errors import ConversionRefused

from .voices import joe


@dataclass(frozen=True)
class Layer:
    kernel: int
    dilation: int
    stride: int
    transposed: bool
    residual: bool


convolutions = st.builds(
    Layer,
    kernel=st.sampled_from([1, 3, 5, 7]),
    dilation=st.integers(1, 4),
    stride=st.just(1),
    transposed=st.just(False),
    residual=st.booleans(),
)
upsamplings = st.integers(1, 4).flatmap(
    lambda half: st.builds(
        Layer,
        kernel=st.sampled_from([4 * half, 2 * half]),
        dilation=st.just(1),
        stride=st.just(2 * half),
        transposed=st.just(True),
        residual=st.just(False),
    )
)


def build(layers: list[Layer], op_type: str = "LeakyRelu") -> onnx.ModelProto:
    """A generator of one channel whose weights are all positive, so that nothing cancels."""
    nodes, weights = [], []
    tensor = "features"
    for number, layer in enumerate(layers):
        weight = np.full((1, 1, layer.kernel), 1.0 / layer.kernel, dtype=np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        pad = (layer.kernel - layer.stride) // 2 if layer.transposed else layer.dilation * (layer.kernel - 1) // 2
        nodes.append(
            helper.make_node(
                "ConvTranspose" if layer.transposed else "Conv",
                [tensor, f"w{number}"],
                [f"c{number}"],
                kernel_shape=[layer.kernel],
                dilations=[layer.dilation],
                strides=[layer.stride],
                pads=[pad, pad],
            )
        )
        if layer.residual:
            nodes.append(helper.make_node("Add", [f"c{number}", tensor], [f"s{number}"]))
        tensor = f"s{number}" if layer.residual else f"c{number}"
        nodes.append(helper.make_node(op_type, [tensor], [f"a{number}"]))
        tensor = f"a{number}"
    nodes.append(helper.make_node("Tanh", [tensor], ["audio"]))
    graph = helper.make_graph(
        nodes,
        "generator",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, 1, "frames"])],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, 1, "samples"])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    model.ir_version = 8
    return model


def frames_reached(model: onnx.ModelProto, frames: int, hop: int) -> npt.NDArray[np.intp]:
    """Frames of audio that change when one frame in the middle changes, relative to it."""
    graph = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    features = np.zeros((1, 1, frames), dtype=np.float32)
    (before,) = graph.run(None, {"features": features})
    features[0, 0, frames // 2] = 0.5
    (after,) = graph.run(None, {"features": features})
    changed = (before != after)[0, 0].reshape(frames, hop).any(axis=1)
    return np.flatnonzero(changed) - frames // 2


@given(st.lists(st.one_of(convolutions, upsamplings), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_the_computed_reach_is_the_measured_one(layers: list[Layer]):
    model = build(layers)
    field = receptive_field(normalise(model), "features", "audio")
    assert field.hop_length_samples == np.prod([layer.stride for layer in layers])
    if field.hop_length_samples > 512:
        return
    reached = frames_reached(model, 161, field.hop_length_samples)
    # a frame is heard as far after itself as a later frame looks back
    assert reached.max() == field.left_frames
    assert -reached.min() == field.right_frames


def test_joes_generator_reaches_eleven_frames():
    graph = load_graph(joe().onnx_file)
    cut = find_cut(graph)
    field = receptive_field(graph, cut.features, cut.waveform)
    assert (field.hop_length_samples, field.left_frames, field.right_frames) == (256, 11, 11)


def test_refuses_a_node_whose_reach_is_not_known():
    model = build([Layer(3, 1, 1, False, False)], op_type="GlobalAveragePool")
    with pytest.raises(ConversionRefused, match="GlobalAveragePool node, whose reach along time is not known"):
        receptive_field(normalise(model), "features", "audio")


def test_refuses_automatic_padding(tmp_path: Path):
    model = build([Layer(3, 1, 1, False, False)])
    conv = model.graph.node[0]
    del conv.attribute[:]
    conv.attribute.append(helper.make_attribute("auto_pad", "SAME_UPPER"))
    with pytest.raises(ConversionRefused, match="automatic padding"):
        receptive_field(normalise(model), "features", "audio")


@pytest.mark.parametrize("mode", ["reflect", "constant"])
def test_padding_by_a_node_of_its_own_reaches_as_far_as_padding_in_the_convolution(mode: str):
    def field(nodes: list[onnx.NodeProto], **weights: npt.NDArray[np.generic]) -> tuple[int, int]:
        graph = helper.make_graph(
            nodes,
            "padded",
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 1, "frames"])],
            [helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["batch", 1, "frames"])],
            [numpy_helper.from_array(value, name) for name, value in weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
        found = receptive_field(normalise(model), "features", "audio")
        return found.left_frames, found.right_frames

    weights = np.ones((1, 1, 5), np.float32)
    inside = field([helper.make_node("Conv", ["features", "w"], ["audio"], pads=[1, 3])], w=weights)
    apart = field(
        [
            helper.make_node("Pad", ["features", "amounts"], ["padded"], mode=mode),
            helper.make_node("Conv", ["padded", "w"], ["audio"]),
        ],
        w=weights,
        amounts=np.array([0, 0, 1, 0, 0, 3], np.int64),
    )
    assert inside == apart == (1, 3)


def test_refuses_padding_of_channels():
    graph = helper.make_graph(
        [helper.make_node("Pad", ["features", "amounts"], ["audio"])],
        "padded",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 1, "frames"])],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["batch", 2, "frames"])],
        [numpy_helper.from_array(np.array([0, 1, 0, 0, 0, 0], np.int64), "amounts")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    with pytest.raises(ConversionRefused, match="Pad node of something else than the length"):
        receptive_field(normalise(model), "features", "audio")
