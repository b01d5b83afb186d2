"""Reflection at the true end: generators like MB-MelGAN, small ones made here and the Mandarin voice's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.harness import MANDARIN_VOICE, edit_yaml
from voxrepo.convert.fixed_shapes import ShapeFinder
from voxrepo.convert.gear_choice import ONE_ROW_NOTE, choose_gears, parse_gears
from voxrepo.convert.gear_proof import prove_gears
from voxrepo.convert.gears import Gear
from voxrepo.convert.job import Job
from voxrepo.convert.masked_generator import add_mask
from voxrepo.convert.onnx_graph import check_dtypes, check_operators
from voxrepo.convert.operator_report import operator_report
from voxrepo.convert.precision.half import to_half
from voxrepo.convert.proof_cases import Array, Case, feature_parts
from voxrepo.convert.records import read_record
from voxrepo.convert.reflection import reflects
from voxrepo.convert.rules import apply_rules, fix_shapes
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.sources import parse_what
from voxrepo.convert.target import find_target
from voxrepo.convert.voice import convert_voice
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import ConversionRefused
from voxrepo_contract.stage import GraphSpec, GraphTensor, WindowedStage, read_stage

from .graphs import CHANNELS, OPSET, model, write_voice_of

F = TensorProto.FLOAT
EXACT = 1e-5
"""Samples are up to 1; kernels for another length make some 1e-6."""


@dataclass
class Melgan:
    """A generator that reflects before every convolution, with residual stacks and a filter bank at its end.

    Attributes:
        kernel: of the first and last convolution.
        strides: of the upsamplings.
        dilations: of the convolutions in the residual stack behind each of them.
        bands: that the filter bank joins, by which the last upsampling multiplies.
        before: positions of the first reflection that go ahead; the others go behind. None for half of them.
    """

    kernel: int = 7
    strides: tuple[int, ...] = (3, 2)
    dilations: tuple[int, ...] = (1, 3)
    bands: int = 4
    before: int | None = None
    opset: int = OPSET
    min_frames: int = 1
    _nodes: list[onnx.NodeProto] = field(default_factory=list)
    _constants: list[TensorProto] = field(default_factory=list)

    @property
    def hop(self) -> int:
        return int(np.prod(self.strides)) * self.bands

    def model(self) -> onnx.ModelProto:
        """The graph; it sets ``min_frames``."""
        scale = 1
        x = self._convolve(self._reflect("features", self.kernel - 1, scale, self.before), self.kernel)
        for stride in self.strides:
            x = self._upsample(self._op("LeakyRelu", [x], alpha=0.2), stride)
            scale *= stride
            for dilation in self.dilations:
                short = self._convolve(x, 1)
                inner = self._op("LeakyRelu", [x], alpha=0.2)
                inner = self._convolve(self._reflect(inner, 2 * dilation, scale), 3, dilations=[dilation])
                inner = self._convolve(self._op("LeakyRelu", [inner], alpha=0.2), 1)
                x = self._op("Add", [short, inner])
        x = self._reflect(self._op("LeakyRelu", [x], alpha=0.2), self.kernel - 1, scale)
        x = self._op("Tanh", [self._convolve(x, self.kernel, self.bands)])
        apart = np.eye(self.bands, dtype=np.float32)[..., None] * np.eye(1, self.bands, dtype=np.float32)
        x = self._op(
            "ConvTranspose", [x, self._constant(self.bands * apart)], kernel_shape=[self.bands], strides=[self.bands]
        )
        x = self._op("Pad", [x, self._constant(np.array([0, 0, 15, 0, 0, 15], np.int64))], mode="constant")
        self._convolve(x, 31, 1, output="audio")
        return model(
            self._nodes,
            {"features": (F, ["batch", CHANNELS, "frames"])},
            {"audio": (F, ["batch", 1, "samples"])},
            self._constants,
            opset=self.opset,
        )

    def _op(self, op_type: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        output = output or f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, inputs, [output], name=f"n{len(self._nodes)}", **attributes))
        return output

    def _constant(self, value: Array) -> str:
        self._constants.append(numpy_helper.from_array(value, f"c{len(self._constants)}"))
        return self._constants[-1].name

    def _weights(self, *shape: int) -> str:
        values = np.random.default_rng(len(self._constants)).standard_normal(shape)
        return self._constant((values / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    def _convolve(self, x: str, kernel: int, made: int = 0, output: str = "", **attributes: Any) -> str:
        rows = self.bands if output else CHANNELS
        return self._op(
            "Conv",
            [x, self._weights(made or CHANNELS, rows, kernel), self._weights(made or CHANNELS)],
            output,
            kernel_shape=[kernel],
            **attributes,
        )

    def _upsample(self, x: str, stride: int) -> str:
        # kernels of two strides, as in MelGAN: what lies beyond the end would be heard up to a stride before it
        parts = [x, self._weights(CHANNELS, CHANNELS, 2 * stride), self._weights(CHANNELS)]
        pads = [stride // 2, stride - stride // 2]
        return self._op("ConvTranspose", parts, kernel_shape=[2 * stride], strides=[stride], pads=pads)

    def _reflect(self, x: str, total: int, scale: int, before: int | None = None) -> str:
        before = total // 2 if before is None else before
        self.min_frames = max(self.min_frames, max(before, total - before) // scale + 1)
        amounts = self._constant(np.array([0, 0, before, 0, 0, total - before], np.int64))
        return self._op("Pad", [x, amounts], mode="reflect")


def session(graph: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


def noise(frames: int, channels: int = CHANNELS) -> Array:
    return np.random.default_rng(frames).standard_normal((1, channels, frames)).astype(np.float32)


def padded(features: Array, gear: int, fill: float = 9.0) -> dict[str, Array]:
    frames = features.shape[2]
    full = np.full((1, features.shape[1], gear), fill, np.float32)
    full[:, :, :frames] = features
    return {"features": full, "mask": (np.arange(gear) < frames).astype(np.float32)[None, None]}


def case(plain: ort.InferenceSession, features: Array, hop: int) -> Case:
    frames = features.shape[2]
    (audio,) = plain.run(None, {"features": features})
    inputs = {"features": features, "mask": np.ones((1, 1, frames), np.float32)}
    return Case({"batch": 1, "frames": frames, "samples": frames * hop}, inputs, {"audio": audio})


def spec_of(channels: int, hop: int, gears: list[int]) -> GraphSpec:
    return GraphSpec(
        file="generator.om",
        sha256="0" * 64,
        inputs=[
            GraphTensor(name="features", dtype="FP32", dims=["batch", channels, "frames"]),
            GraphTensor(name="mask", dtype="FP32", dims=["batch", 1, "frames"]),
        ],
        outputs=[GraphTensor(name="audio", dtype="FP32", dims=["batch", 1, "samples"])],
        gears=[{"batch": 1, "frames": gear, "samples": gear * hop} for gear in gears],
    )


def ignore(message: str, share: float) -> None:
    pass


SHAPES = [
    {},
    {"kernel": 3, "dilations": (1,), "strides": (2,)},
    {"kernel": 5, "dilations": (1, 3, 9), "strides": (5, 2)},
    {"kernel": 11, "dilations": (9, 27), "strides": (4,), "bands": 2},
    {"kernel": 7, "before": 6},
    {"kernel": 7, "before": 0, "bands": 1},
    {"opset": 12},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_length_at_every_gear_ends_where_it_truly_ends(shape: dict[str, Any]):
    melgan = Melgan(**shape)
    plain = session(melgan.model())
    masked = add_mask(Melgan(**shape).model())
    worst = []
    for gear in (melgan.min_frames, melgan.min_frames + 1, melgan.min_frames + 9, melgan.min_frames + 24):
        cases = [case(plain, noise(frames), melgan.hop) for frames in range(melgan.min_frames, gear + 1)]
        proof = prove_gears(
            "generator", masked.SerializeToString(), spec_of(CHANNELS, melgan.hop, [gear]), "frames", cases, 1, ignore
        )
        worst.append(proof.max_diff["audio"])
        assert proof.rows == 1 + len(cases)
    assert max(worst) <= EXACT


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.integers(1, 5).map(lambda half: 2 * half + 1),
    strides=st.lists(st.integers(1, 5), min_size=1, max_size=2).map(tuple),
    dilations=st.lists(st.integers(1, 12), min_size=1, max_size=2).map(tuple),
    more=st.integers(0, 20),
    padding=st.integers(0, 20),
    fill=st.floats(-100, 100),
)
def test_any_such_generator_ends_where_it_truly_ends_whatever_stands_behind(
    kernel, strides, dilations, more, padding, fill
):
    melgan = Melgan(kernel, strides, dilations)
    graph = melgan.model()
    features = noise(melgan.min_frames + more)
    samples = features.shape[2] * melgan.hop
    (expected,) = session(graph).run(None, {"features": features})
    (audio,) = session(add_mask(graph)).run(None, padded(features, features.shape[2] + padding, fill))
    assert np.abs(audio[:, :, :samples] - expected).max() <= EXACT
    assert not audio[:, :, samples:].any()


def test_reflection_at_the_end_of_the_padding_is_heard():
    melgan = Melgan()
    plain = session(melgan.model())
    features = noise(20)
    (expected,) = plain.run(None, {"features": features})
    (audio,) = plain.run(None, {"features": padded(features, 32, 0.0)["features"]})
    assert np.abs(audio[:, :, : 20 * melgan.hop] - expected).max() > 1e-2


@pytest.mark.parametrize("constant", [1, 3])
def test_the_proof_hears_a_mirror_image_that_is_off_by_one(constant: int):
    melgan = Melgan()
    plain = session(melgan.model())
    masked = add_mask(Melgan().model())
    (turn, *_) = [node for node in masked.graph.node if node.op_type == "Sub" and "turn" in node.output[0]]
    (two,) = [tensor for tensor in masked.graph.initializer if tensor.name == turn.input[1]]
    assert numpy_helper.to_array(two).tolist() == [2]
    two.CopyFrom(numpy_helper.from_array(np.array([constant], np.int32), two.name))
    spec = spec_of(CHANNELS, melgan.hop, [40])
    with pytest.raises(ConversionRefused, match="does not keep padding apart from true frames"):
        prove_gears(
            "generator",
            masked.SerializeToString(),
            spec,
            "frames",
            [case(plain, noise(20), melgan.hop)],
            1,
            ignore,
        )


@pytest.mark.parametrize("frames", [0, 1, 3])
def test_what_is_too_short_to_reflect_is_finite_all_the_same(frames: int):
    masked = session(add_mask(Melgan(dilations=(27,)).model()))
    (audio,) = masked.run(None, padded(noise(max(1, frames))[:, :, :frames], 24))
    assert np.isfinite(audio).all()


def test_two_rows_are_refused_by_the_graph_itself():
    masked = session(add_mask(Melgan().model()))
    feeds = {"features": np.zeros((2, CHANNELS, 16), np.float32), "mask": np.ones((2, 1, 16), np.float32)}
    with pytest.raises(Exception, match="mask_length"):
        masked.run(None, feeds)


def test_indices_are_made_once_for_every_kind_of_reflection():
    graph = Melgan(strides=(3, 1), dilations=(1, 3)).model()
    masked = Counter(node.op_type for node in add_mask(graph).graph.node)
    # 3 around frames; 1, 3 and once more 3 (the last convolution) around 3 positions per frame
    assert masked["Range"] == 3
    assert masked["Pad"] == 1
    assert masked["Gather"] == 6 + 1  # and the size
    kept = {node.name for node in graph.graph.node if node.op_type != "Pad"}
    assert kept <= {node.name for node in add_mask(graph).graph.node}


def reflected(
    nodes: list[onnx.NodeProto], amounts: list[int], *, opset: int = OPSET, weight: Array | None = None
) -> onnx.ModelProto:
    constants = [
        numpy_helper.from_array(np.array(amounts, np.int64), "amounts"),
        numpy_helper.from_array(np.ones((1, 1, 3), np.float32) if weight is None else weight, "w"),
        numpy_helper.from_array(np.array(0.5, np.float32), "half"),
    ]
    return model(
        nodes,
        {"features": (F, ["batch", 1, "frames"])},
        {"audio": (F, ["batch", 1, "samples"])},
        constants,
        opset=opset,
    )


def pad_node(mode: str = "reflect", *more: str) -> onnx.NodeProto:
    return helper.make_node("Pad", ["features", "amounts", *more], ["p"], mode=mode)


def test_one_reflection_may_serve_two_convolutions():
    nodes = [
        pad_node(),
        helper.make_node("Conv", ["p", "w"], ["c"]),
        helper.make_node("Tanh", ["c"], ["t"]),
        helper.make_node("Conv", ["t", "w"], ["audio"]),
    ]
    graph = reflected(nodes, [0, 0, 1, 0, 0, 3])
    plain, masked = session(graph), session(add_mask(graph))
    for frames in range(4, 20):
        features = noise(frames, 1)
        (audio,) = masked.run(None, padded(features, 20))
        assert np.abs(audio[:, :, :frames] - plain.run(None, {"features": features})[0]).max() <= EXACT


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([pad_node("edge"), helper.make_node("Conv", ["p", "w"], ["audio"])], "the mode 'edge'.*acoustic stage only"),
        (
            [pad_node("constant", "half"), helper.make_node("Conv", ["p", "w"], ["audio"])],
            "a value other than zero.*acoustic stage only",
        ),
        ([pad_node(), helper.make_node("Tanh", ["p"], ["audio"])], "longer than its frames"),
        (
            [pad_node(), helper.make_node("ConvTranspose", ["p", "w"], ["audio"], strides=[3])],
            "ConvTranspose behind a Pad",
        ),
        ([pad_node(), helper.make_node("Conv", ["p", "w"], ["audio"], pads=[1, 1])], "Conv behind a Pad"),
        (
            [pad_node(), helper.make_node("Conv", ["p", "w"], ["audio"], dilations=[2])],
            "behind pads of 2, which changes the length",
        ),
        (
            [pad_node(), helper.make_node("Pad", ["p", "amounts"], ["audio"], mode="reflect")],
            "Pad behind a Pad",
        ),
        (
            [pad_node(), helper.make_node("Add", ["p", "features"], ["audio"])],
            "joins tensors of different resolution",
        ),
    ],
)
def test_pads_that_do_not_fit_are_refused_in_a_sentence(nodes: list[onnx.NodeProto], words: str):
    with pytest.raises(ConversionRefused, match=words):
        add_mask(reflected(nodes, [0, 0, 1, 0, 0, 1]))


def test_operator_sets_without_whole_numbers_for_it_are_refused_with_what_to_do():
    with pytest.raises(ConversionRefused, match=r"operator set 11.*opset_version=15"):
        add_mask(Melgan(opset=11).model())
    old = reflected([helper.make_node("Conv", ["features", "w"], ["audio"])], [0] * 6, opset=10)
    old.graph.node.insert(0, helper.make_node("Pad", ["features"], ["p"], mode="reflect", pads=[0, 0, 1, 0, 0, 1]))
    old.graph.node[1].input[0] = "p"
    with pytest.raises(ConversionRefused, match=r"not six constants \(operator set 10\)"):
        add_mask(old)


def test_half_precision_does_not_reach_the_indices():
    # half precision knows every whole number up to 2 048 only, and every other one after it
    kernel = np.array([[[1, 0, 0]]], np.float32)
    graph = reflected([pad_node(), helper.make_node("Conv", ["p", "w"], ["audio"])], [0, 0, 0, 0, 0, 2], weight=kernel)
    halved = to_half(add_mask(graph), form="rounded").model
    features = (np.arange(4097) % 7).astype(np.float32)[None, None]
    (audio,) = session(halved).run(None, padded(features, 5000))
    assert np.array_equal(audio[:, :, :4097], features)


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend310P3", "Ascend310B4"])
def test_chips_take_it_and_sizes_follow_from_those_of_the_inputs(soc: str):
    chip = parse_soc(soc)
    masked, _ = apply_rules(add_mask(Melgan().model()), chip)
    check_operators(masked)
    check_dtypes(masked, chip)
    assert not operator_report(masked, chip).errors
    sizes = {"features": (1, CHANNELS, 32), "mask": (1, 1, 32)}
    found = ShapeFinder(masked).at(sizes)
    assert not found.dynamic
    assert found.outputs["audio"] == (1, 1, 32 * Melgan().hop)
    fixed, _ = fix_shapes(masked, sizes, chip)
    left = Counter(node.op_type for node in fixed.graph.node)
    assert not {"Shape", "Range", "Abs", "ConstantOfShape"} & set(left)
    features = noise(20)
    (expected,) = session(Melgan().model()).run(None, {"features": features})
    (audio,) = session(fixed).run(None, padded(features, 32))
    assert np.abs(audio[:, :, : 20 * Melgan().hop] - expected).max() <= EXACT


def test_parts_of_features_are_never_too_short_to_reflect():
    for frames in range(1, 60):
        parts = feature_parts(noise(frames), 16, 10)
        assert all(10 <= part.shape[2] <= 16 for part in parts)
        assert np.array_equal(parts[0][:, :, : min(frames, 16)], noise(frames)[:, :, :16])
        if frames >= 10:
            assert np.array_equal(parts[-1][:, :, -1], noise(frames)[:, :, -1])


def test_a_graph_of_one_row_gets_gears_of_one_row():
    request = parse_gears("batch=2,4;frames=64,128")
    made = choose_gears("generator", request, read_record(), longest=0, overlap_frames=8, one_row=True)
    assert made == [Gear(1, 64), Gear(1, 128)]
    proposed = choose_gears("generator", parse_gears("auto"), read_record(), longest=0, overlap_frames=8, one_row=True)
    assert {gear.batch for gear in proposed} == {1} and len(proposed) > 1


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_voice_that_reflects_is_converted_and_told_why_rows_are_alone(tmp_path: Path, precision: str):
    layout = Layout.of(tmp_path / "root")
    melgan = Melgan(bands=1)
    write_voice_of(layout, generator_graph=melgan.model())
    file = layout.version_dir("tiny.vocoder", 1) / "stage.yaml"
    edit_yaml(file, options__min_frames=melgan.min_frames)
    job = Job(
        find_target("emulator"),
        parse_soc("Ascend910B3"),
        precision,
        parse_gears("batch=1,4;frames=48,64"),
        read_record(),
        "shipped",
        400,
        "voxrepo convert tiny",
    )
    made = convert_voice(layout, parse_what("tiny.vocoder", ["tiny"]), job, use=True, progress=ignore)
    assert ONE_ROW_NOTE in made.notes
    (version,) = made.versions
    assert {gear["batch"] for gear in version.spec.graphs["generator"].gears} == {1}
    assert version.quality()["generator"]["max_diff"]["audio"] <= EXACT


@pytest.fixture(scope="module")
def mandarin(mandarin_root: Path) -> tuple[WindowedStage, onnx.ModelProto]:
    folder = Layout.of(mandarin_root).version_dir(f"{MANDARIN_VOICE}.vocoder", 1)
    spec = read_stage(folder)
    assert isinstance(spec, WindowedStage)
    return spec, onnx.load(folder / spec.graphs["generator"].file)


@pytest.mark.soak
@pytest.mark.parametrize(("frames", "gear"), [(10, 10), (10, 72), (11, 16), (27, 72), (71, 72)])
def test_the_mandarin_vocoder_ends_where_it_truly_ends(mandarin, frames: int, gear: int):
    spec, graph = mandarin
    assert reflects(graph) and spec.options.min_frames == 10
    features = noise(frames, 80)
    (expected,) = session(graph).run(None, {"features": features})
    (audio,) = session(add_mask(graph)).run(None, padded(features, gear))
    assert np.abs(expected).max() > 0.01
    assert np.abs(audio[:, :, : frames * 300] - expected).max() <= EXACT
    assert not audio[:, :, frames * 300 :].any()


@pytest.mark.soak
def test_chips_take_the_mandarin_vocoder(mandarin):
    for soc in map(parse_soc, ("Ascend910B3", "Ascend310P3")):
        report = operator_report(add_mask(mandarin[1]), soc)
        assert not report.errors
        assert not [entry for entry in report.findings if entry.operator in {"Gather", "Range"}]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_mandarin_vocoder_at_every_length_in_the_shortest_gear_and_at_many_in_the_others(mandarin):
    spec, graph = mandarin
    least, overlap = spec.options.min_frames, spec.options.overlap_frames
    chosen = choose_gears(
        "generator", parse_gears("auto"), read_record(), longest=0, overlap_frames=overlap, one_row=True
    )
    plain, masked = session(graph), add_mask(graph).SerializeToString()
    for number, gear in enumerate(chosen):
        # near the least length, near the gear's, and between; what is far from an end is like what is farther
        spread = {*range(least, least + 3), *np.linspace(least, gear.length, 6).astype(int), gear.length - 1}
        lengths = sorted(spread) if number else range(least, gear.length + 1)
        cases = [case(plain, noise(int(frames), 80), 300) for frames in lengths]
        proof = prove_gears("generator", masked, spec_of(80, 300, [gear.length]), "frames", cases, 1, ignore)
        assert proof.max_diff["audio"] <= EXACT, gear
        assert proof.rows == 1 + len(cases)
