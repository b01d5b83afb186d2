from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from voxrepo.convert.masked_generator import add_mask
from voxrepo.convert.proof_cases import Array
from voxrepo_contract.errors import ConversionRefused

from .graphs import CHANNELS, HOP, generator, model


def session(graph: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


PLAIN, MASKED = session(generator()), session(add_mask(generator()))


def padded(features: Array, gear: int, batch: int, fill: float) -> dict[str, Array]:
    frames = features.shape[2]
    feeds = {
        "features": np.full((batch, CHANNELS, gear), fill, np.float32),
        "mask": np.zeros((batch, 1, gear), np.float32),
    }
    feeds["features"][0, :, :frames] = features[0]
    feeds["mask"][0, 0, :frames] = 1
    return feeds


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 3), st.floats(-100, 100), st.integers(0, 1000))
def test_padding_is_a_true_end_whatever_stands_in_it(frames, more, batch, fill, seed):
    features = np.random.default_rng(seed).standard_normal((1, CHANNELS, frames)).astype(np.float32)
    expected = PLAIN.run(None, {"features": features})[0]
    (audio,) = MASKED.run(None, padded(features, frames + more, batch, fill))
    assert np.abs(audio[0, :, : frames * HOP] - expected[0]).max() <= 1e-6
    assert not audio[0, :, frames * HOP :].any()
    assert not audio[1:].any()


def test_without_the_mask_padding_is_heard():
    features = np.random.default_rng(0).standard_normal((1, CHANNELS, 12)).astype(np.float32)
    feeds = padded(features, 20, 1, 0.0)
    expected = PLAIN.run(None, {"features": features})[0]
    plain = PLAIN.run(None, {"features": feeds["features"]})[0]
    assert np.abs(plain[0, :, : 12 * HOP] - expected[0]).max() > 1e-4


def test_a_mask_of_ones_changes_nothing():
    features = np.random.default_rng(0).standard_normal((2, CHANNELS, 16)).astype(np.float32)
    expected = PLAIN.run(None, {"features": features})[0]
    (audio,) = MASKED.run(None, {"features": features, "mask": np.ones((2, 1, 16), np.float32)})
    assert np.array_equal(audio, expected)


def test_the_mask_is_made_once_per_resolution():
    masked = add_mask(generator())
    assert sum(node.op_type == "Tile" for node in masked.graph.node) == 2
    assert [value.name for value in masked.graph.input] == ["features", "mask"]
    shape = masked.graph.input[1].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in shape] == ["batch", 1, "frames"]


def test_names_mean_nothing():
    graph = generator()
    for node in graph.graph.node:
        node.name = ""
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                field[index] = {"h0": "mask_masked_0", "a0": "mask_x2_0"}.get(name, name)
    features = np.random.default_rng(1).standard_normal((1, CHANNELS, 9)).astype(np.float32)
    (audio,) = session(add_mask(graph)).run(None, padded(features, 15, 2, 3.0))
    assert np.abs(audio[0, :, : 9 * HOP] - PLAIN.run(None, {"features": features})[0][0]).max() <= 1e-6


def test_the_graph_given_is_not_changed():
    graph = generator()
    before = graph.SerializeToString(deterministic=True)
    add_mask(graph)
    assert graph.SerializeToString(deterministic=True) == before


def test_it_is_not_done_twice():
    with pytest.raises(ConversionRefused, match="2 inputs and 1 outputs"):
        add_mask(add_mask(generator()))


@pytest.mark.parametrize("changes", [{"pads": [0, 0]}, {"pads": [1, 0]}, {"strides": [3]}, {"output_padding": [1]}])
def test_an_upsampling_that_is_not_a_multiple_is_refused(changes):
    with pytest.raises(ConversionRefused, match=r"ConvTranspose .* not . times as long"):
        add_mask(generator(**changes))


def conv_graph(**attributes: Any) -> onnx.ModelProto:
    f = TensorProto.FLOAT
    return model(
        [helper.make_node("Conv", ["features", "w"], ["audio"], kernel_shape=[3], **attributes)],
        {"features": (f, ["batch", 1, "frames"])},
        {"audio": (f, ["batch", 1, "samples"])},
        [numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "w")],
    )


@pytest.mark.parametrize("attributes", [{"pads": [0, 0]}, {"pads": [1, 1], "strides": [2]}, {"pads": [2, 1]}])
def test_a_convolution_that_changes_the_length_is_refused(attributes):
    with pytest.raises(ConversionRefused, match="changes the length"):
        add_mask(conv_graph(**attributes))


@pytest.mark.parametrize(
    ("op", "attributes"), [("InstanceNormalization", {}), ("ReduceMean", {"axes": [2]}), ("Softmax", {"axis": 2})]
)
def test_what_reaches_over_all_of_time_is_refused(op, attributes):
    f = TensorProto.FLOAT
    extra = ["scale", "bias"] if op == "InstanceNormalization" else []
    ones = [numpy_helper.from_array(np.ones(1, np.float32), name) for name in extra]
    graph = model(
        [helper.make_node(op, ["features", *extra], ["audio"], **attributes)],
        {"features": (f, ["batch", 1, "frames"])},
        {"audio": (f, ["batch", 1, "frames"])},
        ones,
    )
    with pytest.raises(ConversionRefused, match=f"{op} node, whose reach along time is not known"):
        add_mask(graph)


def test_a_constant_along_time_is_refused():
    f = TensorProto.FLOAT
    graph = model(
        [helper.make_node("Mul", ["features", "window"], ["audio"])],
        {"features": (f, ["batch", 1, 8])},
        {"audio": (f, ["batch", 1, 8])},
        [numpy_helper.from_array(np.ones(8, np.float32), "window")],
    )
    with pytest.raises(ConversionRefused, match="constant that varies along time"):
        add_mask(graph)


def test_joining_different_resolutions_is_refused():
    f = TensorProto.FLOAT
    up = numpy_helper.from_array(np.ones((1, 1, 2), np.float32), "w")
    graph = model(
        [
            helper.make_node("ConvTranspose", ["features", "w"], ["up"], kernel_shape=[2], strides=[2]),
            helper.make_node("Add", ["up", "features"], ["audio"]),
        ],
        {"features": (f, ["batch", 1, "frames"])},
        {"audio": (f, ["batch", 1, "samples"])},
        [up],
    )
    with pytest.raises(ConversionRefused, match="different resolution"):
        add_mask(graph)


def test_an_input_of_another_rank_is_refused():
    f = TensorProto.FLOAT
    graph = model([helper.make_node("Tanh", ["x"], ["y"])], {"x": (f, ["b", "t"])}, {"y": (f, ["b", "t"])}, [])
    with pytest.raises(ConversionRefused, match="2 axes"):
        add_mask(graph)
