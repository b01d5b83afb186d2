from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from voxrepo.importers import dense_spline, import_piper, stage_files
from voxrepo.importers.onnx_file import load_graph
from voxrepo.importers.proof import Pieces, prove
from voxrepo.importers.proof_texts import proof_texts
from voxrepo.importers.receptive_field import ReceptiveField
from voxrepo.importers.spline_match import Spline, find_splines
from voxrepo.importers.vits_pieces import VitsPieces, make_pieces
from voxrepo_contract.errors import AlreadyExists, ConfigError, ConversionRefused, VoxrepoError

from .voices import VoiceFiles, joe, multi_speaker_model, write_voice


def refusal(source: VoiceFiles, out: Path, kind: type[VoxrepoError], says: str) -> None:
    with pytest.raises(kind, match=says):
        import_piper(source.onnx_file, source.config_file, out)
    assert not out.exists(), "nothing is written when an import is refused"


def nodes(model: onnx.ModelProto, op_type: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == op_type]


def first(model: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    return nodes(model, op_type)[0]


def last(model: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    return nodes(model, op_type)[-1]


def without_ceil(model: onnx.ModelProto) -> None:
    first(model, "Ceil").op_type = "Floor"


def without_tanh(model: onnx.ModelProto) -> None:
    last(model, "Tanh").op_type = "Sigmoid"


def without_upsampling(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "ConvTranspose":
            node.op_type = "Conv"


def without_duration_noise(model: onnx.ModelProto) -> None:
    random = first(model, "RandomNormalLike")
    random.op_type = "Identity"
    random.ClearField("attribute")


def with_odd_noise(model: onnx.ModelProto) -> None:
    first(model, "RandomNormalLike").attribute.append(helper.make_attribute("scale", 2.0))


def without_prior_noise(model: onnx.ModelProto) -> None:
    random = last(model, "RandomNormalLike")
    random.op_type = "Identity"
    random.ClearField("attribute")


def with_another_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 8]))


def with_generator_noise(model: onnx.ModelProto) -> None:
    tanh = last(model, "Tanh")
    model.graph.node.extend(
        [
            helper.make_node("RandomNormalLike", [tanh.input[0]], ["hiss"]),
            helper.make_node("Add", [tanh.input[0], "hiss"], ["hissing"]),
        ]
    )
    tanh.input[0] = "hissing"


def with_an_unknown_spline(model: onnx.ModelProto) -> None:
    first(model, "Softplus").op_type = "Relu"


def with_control_flow(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("If", ["input"], ["branch"], then_branch=body, else_branch=body))


def quantised(model: onnx.ModelProto) -> None:
    conv = first(model, "Conv")
    model.graph.initializer.extend(
        [
            numpy_helper.from_array(np.zeros((192, 192, 1), dtype=np.int8), "weight_int8"),
            numpy_helper.from_array(np.asarray(0.1, dtype=np.float32), "weight_scale"),
        ]
    )
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["weight_int8", "weight_scale"], ["weight_float"]))
    conv.input[1] = "weight_float"


def half_precision(model: onnx.ModelProto) -> None:
    for weight in model.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), weight.name))


def old_operator_set(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 11


def foreign_operator(model: onnx.ModelProto) -> None:
    first(model, "Erf").domain = "com.example"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (without_ceil, "0 length regulators were found"),
        (without_tanh, "no output comes from a Tanh, so there is no HiFi-GAN generator"),
        (without_upsampling, "0 first upsampling convolutions"),
        (without_duration_noise, "0 random nodes feed the durations"),
        (with_odd_noise, "not of mean 0 and deviation 1"),
        (without_prior_noise, "0 places look like expanded mean"),
        (with_another_input, r"its input 'style' \(FLOAT, rank 2\) is neither"),
        (with_generator_noise, "the generator draws random numbers of its own"),
        (with_an_unknown_spline, "spline of the duration predictor has a form that is not known"),
        (with_control_flow, "uses the operator If"),
        (foreign_operator, r"uses the operator com\.example\.Erf"),
        (quantised, "the graph is quantised"),
        (half_precision, "the graph has FP16 weights"),
        (old_operator_set, "operator set 11"),
    ],
)
def test_refuses_a_graph_that_is_not_a_float_vits_export(
    change: Callable[[onnx.ModelProto], None], says: str, tmp_path: Path
):
    model = joe().model()
    change(model)
    refusal(write_voice(tmp_path / "voice", model), tmp_path / "out", ConversionRefused, says)


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02 no graph", b'{"audio": {}}', b"\x89PNG\r\n\x1a\n" * 99])
def test_refuses_a_file_that_is_not_onnx(content: bytes, tmp_path: Path):
    file = tmp_path / "voice.onnx"
    file.write_bytes(content)
    refusal(VoiceFiles(file, joe().config_file), tmp_path / "out", ConversionRefused, "not an ONNX file")


def test_refuses_a_missing_graph_and_a_folder(tmp_path: Path):
    refusal(VoiceFiles(tmp_path / "no.onnx", joe().config_file), tmp_path / "out", ConfigError, "no such file")
    refusal(VoiceFiles(tmp_path, joe().config_file), tmp_path / "out", ConfigError, "not a file")


def test_refuses_weights_that_were_left_behind(tmp_path: Path):
    model = joe().model()
    folder = tmp_path / "voice"
    folder.mkdir()
    onnx.save(model, folder / "voice.onnx", save_as_external_data=True, location="weights.bin")
    (folder / "weights.bin").unlink()
    source = VoiceFiles(folder / "voice.onnx", joe().config_file)
    refusal(source, tmp_path / "out", ConversionRefused, "weights are in a separate file")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"num_speakers": 4}, "num_speakers is 4, but the graph has no speaker input"),
        ({"phoneme_id_map": {"_": [0], "^": [1], "$": [2], "a": [256]}}, "'a' has the id 256"),
        ({"hop_length": 300}, "hop_length is 300, but the graph makes 256"),
        ({"language": None}, r"language\.code is missing"),
        ({"phoneme_id_map": None}, "phoneme_id_map: required key is missing"),
        ({"phoneme_type": "pinyin"}, "only voices trained on espeak phonemes"),
    ],
)
def test_refuses_a_configuration_that_does_not_fit_the_graph(config: dict[str, Any], says: str, tmp_path: Path):
    refusal(write_voice(tmp_path / "voice", None, **config), tmp_path / "out", ConfigError, says)


def test_refuses_another_number_of_speakers_than_the_graph_has(tmp_path: Path):
    source = write_voice(tmp_path / "voice", multi_speaker_model(3), num_speakers=2)
    refusal(source, tmp_path / "out", ConfigError, "num_speakers is 2, but the graph has 3 speakers")


def test_refuses_to_overwrite_stages(tmp_path: Path):
    (tmp_path / "vocoder").mkdir()
    with pytest.raises(AlreadyExists, match="vocoder is there already"):
        import_piper(joe().onnx_file, joe().config_file, tmp_path)


def test_without_onnx_the_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    refusal(joe(), tmp_path / "out", ConfigError, r"pip install 'voxrepo\[convert\]'")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda s: dataclasses.replace(s, widths=s.heights, heights=s.widths), "not exact at the durations"),
        (lambda s: dataclasses.replace(s, min_derivative=0.002), "not exact at the durations"),
        (lambda s: dataclasses.replace(s, border_derivative=0.6), "durations at a duration noise of 4"),
    ],
)
def test_refuses_a_spline_that_was_read_wrongly(
    wrong: Callable[[Spline], Spline], says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dense_spline, "find_splines", lambda graph: [wrong(s) for s in find_splines(graph)])
    with pytest.raises(ConversionRefused, match=says):
        prove_briefly(make_pieces(load_graph(joe().onnx_file)))


def prove_briefly(pieces: VitsPieces, **changes: Any) -> None:
    """The proof with three texts."""
    whole = Pieces(
        reference=pieces.reference,
        reference_encoder=pieces.reference_encoder,
        encoder=pieces.encoder.model,
        decoder=pieces.decoder.model,
        generator=pieces.generator.model,
        noise_scale=0.667,
        noise_w_scale=0.8,
        length_scale=1.0,
        max_frames_per_id=200,
        window_frames=64,
        overlap_frames=11,
        hop_length_samples=256,
    )
    texts = proof_texts(joe().config()["phoneme_id_map"], 1)
    prove(dataclasses.replace(whole, **changes), texts, lambda _message, _share: None, count=3)


@pytest.fixture(scope="module")
def joe_pieces() -> VitsPieces:
    return make_pieces(load_graph(joe().onnx_file))


def scaled(model: onnx.ModelProto, output: str, factor: float) -> onnx.ModelProto:
    """``model`` with one output multiplied by ``factor``."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        for index, name in enumerate(node.output):
            if name == output:
                node.output[index] = "unscaled"
        for index, name in enumerate(node.input):
            if name == output:
                node.input[index] = "unscaled"
    copy.graph.initializer.append(numpy_helper.from_array(np.asarray(factor, dtype=np.float32), "factor"))
    copy.graph.node.append(helper.make_node("Mul", ["unscaled", "factor"], [output]))
    return copy


def test_three_texts_prove_a_right_cut(joe_pieces: VitsPieces):
    prove_briefly(joe_pieces)


def test_refuses_windows_that_overlap_too_little(joe_pieces: VitsPieces):
    with pytest.raises(ConversionRefused, match=r"windows differs by 0\.0|waveform differs by 0\.0"):
        prove_briefly(joe_pieces, overlap_frames=5)


@pytest.mark.parametrize(
    ("piece", "output", "begins"),
    [("encoder", "mean", "mean"), ("decoder", "features", "features"), ("generator", "audio", "audio")],
)
def test_refuses_an_inexact_piece_and_names_the_boundary(piece: str, output: str, begins: str, joe_pieces: VitsPieces):
    changed = scaled(getattr(joe_pieces, piece).model, output, 1.05)
    with pytest.raises(ConversionRefused, match=rf"waveform differs by .* it begins at '{begins}'"):
        prove_briefly(joe_pieces, **{piece: changed})


def test_refuses_other_frame_counts_and_says_where(joe_pieces: VitsPieces):
    changed = scaled(joe_pieces.encoder.model, "durations", 1.5)
    with pytest.raises(ConversionRefused, match=r"ids get another number of frames \(id \d+: \d+ in the original"):
        prove_briefly(joe_pieces, encoder=changed)


def test_refuses_a_silent_voice(joe_pieces: VitsPieces):
    silent = {
        "generator": scaled(joe_pieces.generator.model, "audio", 0.0),
        "reference": scaled(joe_pieces.reference, "audio", 0.0),
    }
    with pytest.raises(ConversionRefused, match="silent or not finite"):
        prove_briefly(joe_pieces, **silent)


def test_refuses_a_voice_whose_durations_run_away(joe_pieces: VitsPieces):
    with pytest.raises(ConversionRefused, match="only 0 of 3 proof texts have durations below 2 frames"):
        prove_briefly(joe_pieces, max_frames_per_id=2)


def test_refuses_a_graph_left_with_data_dependent_shapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("voxrepo.importers.vits_pieces.rewrite_splines", lambda _graph: 0)
    refusal(joe(), tmp_path / "out", ConversionRefused, "the graph 'encoder' has a tensor whose shape depends on data")


@pytest.mark.parametrize(("peak", "gain"), [(0.3, 2.0), (0.6, 1.0), (1.2, 0.5), (0.01, 4.0)])
def test_the_gain_brings_the_loudest_proof_text_to_its_level(peak: float, gain: float):
    assert stage_files.gain_for(peak) == pytest.approx(gain, abs=1e-3)


@pytest.mark.parametrize("overlap_frames", [0, 11, 32, 33, 90])
def test_half_of_a_window_is_kept_at_least(overlap_frames: int):
    field = ReceptiveField(hop_length_samples=256, left_frames=overlap_frames, right_frames=overlap_frames)
    window = stage_files.window_frames_for(field.overlap_frames)
    assert window >= 128
    assert window >= 4 * overlap_frames
