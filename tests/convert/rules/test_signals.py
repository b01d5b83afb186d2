from __future__ import annotations

import numpy as np
import pytest

from tests.convert.rules.helpers import SOC, assert_left_alone, assert_replaced, graph, node, noise, run
from voxrepo.convert.rules import apply_rules


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [True, False])
def test_stft_is_a_convolution(onesided: int, windowed: bool):
    constants = {"step": np.array(4), "length": np.array(16)}
    if windowed:
        constants["w"] = np.hanning(16).astype(np.float32)
    names = ["x", "step", "w" if windowed else "", "length"]
    model = graph([node("STFT", names, onesided=onesided)], {"x": ["batch", "samples", 1]}, constants)
    feeds = [{"x": noise(2, 64, 1)}, {"x": noise(1, 45, 1, seed=1)}]
    assert_replaced(model, "stft", "STFT", *feeds)


def test_stft_of_complex_sound_or_a_step_that_varies_stays():
    constants = {"step": np.array(4), "length": np.array(16)}
    model = graph([node("STFT", ["x", "step", "", "length"], onesided=0)], {"x": [1, 64, 2]}, constants)
    assert_left_alone(model, "stft", "STFT")
    model = graph(
        [node("STFT", ["x", "step", "", "length"])],
        {"x": [1, 64, 1], "step": []},
        {"length": np.array(16)},
        kinds={"step": 7},
    )
    assert_left_alone(model, "stft", "STFT")


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize(
    ("dims", "axis", "length", "attributes"),
    [
        ([2, 16, 1], 1, None, {"onesided": 1}),
        ([2, 16, 1], 1, None, {}),
        ([2, 3, 16, 2], 2, None, {}),
        ([2, 3, 16, 2], 2, None, {"inverse": 1}),
        ([2, 16, 3, 2], 1, None, {}),
        ([2, 8, 1], 1, 16, {"onesided": 1}),
        ([2, 16, 2], 1, 8, {"inverse": 1}),
    ],
)
def test_dft_is_a_product(opset: int, dims, axis: int, length: int | None, attributes):
    constants = {} if length is None else {"length": np.array(length)}
    names = ["x"] if length is None else ["x", "length"]
    attributes = dict(attributes)
    if opset < 20:
        attributes["axis"] = axis
    else:
        constants["axis"] = np.array(axis)
        names = ["x", "length" if length else "", "axis"]
    model = graph([node("DFT", names, **attributes)], {"x": dims}, constants, opset=opset)
    made = assert_replaced(model, "dft", "DFT", {"x": noise(*dims)})
    assert made.opset_import[0].version <= 18


@pytest.mark.parametrize("points", [12, 1200])
def test_a_dft_of_any_length_is_that_of_numpy(points: int):
    # onnxruntime's own result for lengths that are no power of two is less exact than the product
    made, _ = apply_rules(graph([node("DFT", ["x"], axis=1, onesided=1)], {"x": [2, points, 1]}), SOC)
    x = noise(2, points, 1)
    expected = np.fft.rfft(x[..., 0].astype(np.float64))
    (found,) = run(made, {"x": x})
    largest = np.abs(expected).max()
    np.testing.assert_allclose(found[..., 0] / largest, expected.real / largest, atol=1e-6)
    np.testing.assert_allclose(found[..., 1] / largest, expected.imag / largest, atol=1e-6)


def test_a_dft_of_varying_or_great_length_stays():
    assert_left_alone(graph([node("DFT", ["x"], axis=1)], {"x": [1, "samples", 1]}), "dft", "DFT")
    assert_left_alone(graph([node("DFT", ["x"], axis=1)], {"x": [1, 48000, 1]}), "dft", "DFT")


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [3], "pads": [1, 1], "output_padding": [1]},
        {"strides": [3], "pads": [1, 0], "output_padding": [2]},
        {"strides": [4], "pads": [2, 2], "output_padding": [1]},
        {"strides": [2], "auto_pad": "SAME_UPPER"},
        {"strides": [2], "auto_pad": "SAME_LOWER"},
        {"strides": [2], "auto_pad": "VALID"},
        {"strides": [1], "dilations": [2], "auto_pad": "SAME_UPPER"},
    ],
)
def test_a_transposed_convolution_gets_plain_pads(attributes):
    constants = {"w": noise(4, 3, 5, seed=1), "b": noise(3, seed=2)}
    nodes = [node("ConvTranspose", ["x", "w", "b"], kernel_shape=[5], **attributes)]
    model = graph(nodes, {"x": ["batch", 4, "time"]}, constants)
    made = assert_replaced(model, "conv_transpose", "", {"x": noise(2, 4, 7)}, {"x": noise(1, 4, 20, seed=3)})
    (left,) = made.graph.node
    assert not {"output_padding", "auto_pad"} & {entry.name for entry in left.attribute}


@pytest.mark.parametrize(
    ("attributes", "kernel"),
    [
        ({"strides": [2], "pads": [1, 1]}, True),
        ({"strides": [3], "output_padding": [1]}, False),
        ({"strides": [3], "dilations": [2], "output_padding": [1]}, True),
    ],
)
def test_a_plain_or_unknown_transposed_convolution_stays(attributes, kernel: bool):
    constants = {"w": noise(4, 3, 5)} if kernel else {}
    inputs: dict[str, list[int | str]] = {"x": [1, 4, "time"], **({} if kernel else {"w": [4, 3, 5]})}
    model = graph([node("ConvTranspose", ["x", "w"], kernel_shape=[5], **attributes)], inputs, constants)
    assert_left_alone(model, "conv_transpose", "ConvTranspose")


@pytest.mark.parametrize(
    "attributes",
    [
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"coordinate_transformation_mode": "half_pixel"},
    ],
)
@pytest.mark.parametrize("factor", [2, 3, 300])
def test_upsampling_by_repeating_is_a_tile(attributes, factor: int):
    constants = {"scales": np.array([1, 1, factor], np.float32)}
    nodes = [node("Resize", ["x", "", "scales"], mode="nearest", **attributes)]
    model = graph(nodes, {"x": ["batch", 3, "time"]}, constants)
    assert_replaced(model, "nearest_resize", "Resize", {"x": noise(2, 3, 5)}, {"x": noise(1, 3, 1)})


@pytest.mark.parametrize(
    ("mode", "factor", "place"),
    [("linear", 2, "half_pixel"), ("nearest", 1.5, "asymmetric"), ("nearest", 2, "align_corners")],
)
def test_other_resizing_stays(mode: str, factor: float, place: str):
    constants = {"scales": np.array([1, 1, factor], np.float32)}
    nodes = [node("Resize", ["x", "", "scales"], mode=mode, coordinate_transformation_mode=place)]
    assert_left_alone(graph(nodes, {"x": [1, 3, "time"]}, constants), "nearest_resize", "Resize")


@pytest.mark.parametrize(("before", "after"), [(3, 3), (1, 0), (0, 2), (5, 1)])
@pytest.mark.parametrize("time", ["time", 9])
def test_reflection_is_made_of_pieces(before: int, after: int, time):
    constants = {"p": np.array([0, 0, before, 0, 0, after])}
    model = graph([node("Pad", ["x", "p"], mode="reflect")], {"x": ["batch", 3, time]}, constants)
    assert_replaced(model, "reflect_pad", "Pad", {"x": noise(2, 3, 9)})


@pytest.mark.parametrize(
    ("mode", "pads"), [("constant", [0, 0, 1, 0, 0, 1]), ("edge", [0, 0, 1, 0, 0, 1]), ("reflect", [0, 1, 1, 0, 1, 1])]
)
def test_other_padding_stays(mode: str, pads: list[int]):
    model = graph([node("Pad", ["x", "p"], mode=mode)], {"x": [2, 3, "time"]}, {"p": np.array(pads)})
    assert_left_alone(model, "reflect_pad", "Pad")
