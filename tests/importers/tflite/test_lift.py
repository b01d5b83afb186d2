"""Lifted graphs against the literal interpretation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto

from tests.importers.tflite.models import VALID, Builder, dilated, generator, reflected
from voxrepo.importers.extract import Port, extract
from voxrepo.importers.melgan import lift_melgan
from voxrepo.importers.onnx_run import open_session, run
from voxrepo.importers.proof_host import windows
from voxrepo.importers.tflite import interpreter
from voxrepo.importers.tflite.lift import Lifter
from voxrepo.importers.tflite.model import TfliteModel
from voxrepo.importers.tflite.observed import Observed
from voxrepo.importers.tflite.writer import Value
from voxrepo_contract.errors import ConversionRefused

RNG = np.random.default_rng(9)
CHANNELS = 5


def features(frames: int, channels: int = CHANNELS) -> npt.NDArray[np.float32]:
    return RNG.standard_normal((1, channels, frames), dtype=np.float32)


def literal(model: TfliteModel, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    source, target = model.inputs[0], model.outputs[0]
    return interpreter.run(model, {source: x.transpose(0, 2, 1)}, {target})[target]


def test_a_generator_computes_what_its_file_does_at_any_length_and_batch():
    made = lift_melgan(generator())
    session = open_session(made.model)
    for frames in (made.min_frames, 13, 50):
        x = features(frames)
        audio = run(session, {"features": x}, "it")["audio"]
        assert audio.shape == (1, 1, frames * 6)
        np.testing.assert_allclose(audio.reshape(-1), literal(made.source, x).reshape(-1), atol=1e-5)
    pair = np.concatenate([features(20), features(20)])
    both = run(session, {"features": pair}, "it")["audio"]
    for row in (0, 1):
        np.testing.assert_allclose(
            both[row], run(session, {"features": pair[row : row + 1]}, "it")["audio"][0], atol=1e-5
        )


def test_a_generator_has_no_arithmetic_on_shapes_and_no_detours():
    made = lift_melgan(generator())
    kinds = {node.op_type for node in made.model.graph.node}
    assert kinds == {"Add", "Conv", "ConvTranspose", "LeakyRelu", "Pad", "Tanh"}
    assert made.field.hop_length_samples == 6


def test_windows_with_the_receptive_field_as_overlap_are_exact():
    made = lift_melgan(generator())
    session = open_session(made.model)
    x = features(120)
    whole = run(session, {"features": x}, "it")["audio"][0, 0]

    def joined(overlap: int) -> npt.NDArray[np.float32]:
        parts = []
        for w in windows(120, 40, overlap):
            audio = run(session, {"features": x[:, :, w.start : w.stop]}, "it")["audio"][0, 0]
            parts.append(audio[(w.keep_from - w.start) * 6 : (w.keep_to - w.start) * 6])
        return np.concatenate(parts)

    overlap = made.field.overlap_frames
    np.testing.assert_allclose(joined(overlap), whole, atol=1e-6)
    assert np.abs(joined(overlap - 2) - whole).max() > 1e-4


def test_the_least_frames_are_those_that_the_widest_reflection_needs():
    # 2 positions at 1 per frame need 3 frames, 3 positions at 3 per frame need 2
    assert lift_melgan(generator()).min_frames == 3


def lifted(model: TfliteModel, *, mask: bool = False) -> onnx.ModelProto:
    source, target = model.inputs[0], model.outputs[0]
    channels = model.tensors[source].shape[2]
    runs = [{source: features(n, channels).transpose(0, 2, 1)} for n in (12, 15)]
    observed = Observed.of(model, *runs)
    given = {source: Value("x", "sequence", channels)}
    lifter = Lifter(model, observed, given, mask="mask" if mask else None)
    value = lifter.lift(target)
    inputs = [Port("x", "x", TensorProto.FLOAT, ("batch", channels, "frames"))]
    if mask:
        inputs.append(Port("mask", "mask", TensorProto.FLOAT, ("batch", 1, "frames")))
    graph = lifter.graph([], [value.name])
    output = Port(graph.outputs[0], "y", TensorProto.FLOAT, ("batch", value.channels, "frames"))
    return extract(graph, inputs, [output], "lifted")


def stack() -> TfliteModel:
    """Two convolutions with a bias and ReLU in between: padding spreads, if nothing holds it."""
    builder = Builder()
    source = builder.tensor((1, -1, 4))
    x = source
    for _ in range(2):
        x = builder.conv(x, RNG.standard_normal((4, 3, 4)).astype(np.float32), np.ones(4, np.float32))
        x = builder.add("ADD", x, builder.tensor(data=np.ones(4)), FusedActivationFunction=1)
    return builder.model([source], [x])


def test_with_a_mask_padding_is_a_true_end():
    model = lifted(stack(), mask=True)
    session = open_session(model)
    x = features(10, 4)
    alone = run(session, {"x": x, "mask": np.ones((1, 1, 10), np.float32)}, "it")["y"]
    padded = np.concatenate([x, features(6, 4) * 9], axis=2)
    mask = (np.arange(16) < 10).astype(np.float32).reshape(1, 1, 16)
    found = run(session, {"x": padded, "mask": mask}, "it")["y"]
    np.testing.assert_allclose(found[:, :, :10], alone, atol=1e-6)
    without = run(session, {"x": padded, "mask": np.ones_like(mask)}, "it")["y"]
    assert np.abs(without[:, :, :10] - alone).max() > 1e-2, "the mask does nothing"


def test_biases_are_folded_into_their_convolutions():
    kinds = [node.op_type for node in lifted(stack()).graph.node]
    assert kinds == ["Conv", "Relu", "Conv", "Relu"]


def test_refuses_a_detour_through_the_batch_axis_that_is_no_dilated_convolution():
    builder = Builder()
    source = builder.tensor((1, -1, 2))
    made = dilated(builder, source, np.ones((2, 3, 2), np.float32), np.zeros(2, np.float32), 2)
    model = builder.model([source], [made])
    other = builder.ints([3])
    last = model.operators[-1]
    swapped = type(last)(last.kind, (last.inputs[0], other, last.inputs[2]), last.outputs, last.options)
    broken = TfliteModel(tuple(builder.tensors), (*model.operators[:-1], swapped), model.inputs, model.outputs)
    with pytest.raises(ConversionRefused, match="no dilated convolution"):
        lifter = Lifter(broken, Observed({last.output: np.zeros(1)}, {}), {source: Value("x", "sequence", 2)})
        lifter.lift(last.output)


def test_refuses_an_operator_that_sequence_models_do_not_have():
    builder = Builder()
    source = builder.tensor((1, -1, 2))
    made = builder.add("TILE", source, builder.ints([1, 2, 1]))
    with pytest.raises(ConversionRefused, match=r"'t2' \[1, 24, 2\] is made by TILE"):
        lifted(builder.model([source], [made]))


def test_refuses_a_vocoder_of_two_channels():
    builder = Builder()
    source = builder.tensor((1, -1, 2))
    x = builder.conv(
        reflected(builder, source, 1), np.ones((2, 3, 2), np.float32), np.zeros(2, np.float32), Padding=VALID
    )
    with pytest.raises(ConversionRefused, match="makes 2 channels of audio"):
        lift_melgan(builder.model([source], [x]))
