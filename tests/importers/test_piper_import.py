from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest

from voxrepo.importers.static_shapes import fold
from voxrepo_contract.stage import (
    LengthRegulatedStage,
    TextFrontendStage,
    WindowedStage,
    read_stage,
    sha256_of,
    verify_files,
)

from .conftest import Imported, Importer
from .voices import joe, renamed, write_voice

Array = npt.NDArray[Any]

DATA_DEPENDENT = {"NonZero", "GatherND", "ScatterND", "GatherElements", "Compress", "Unique", "Loop", "If"}
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
GRAPHS = ("acoustic/encoder.onnx", "acoustic/decoder.onnx", "vocoder/generator.onnx")


def session(file: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def stages(out: Path) -> tuple[TextFrontendStage, LengthRegulatedStage, WindowedStage]:
    text_frontend, acoustic, vocoder = (read_stage(out / s) for s in ("text_frontend", "acoustic", "vocoder"))
    assert isinstance(text_frontend, TextFrontendStage)
    assert isinstance(acoustic, LengthRegulatedStage)
    assert isinstance(vocoder, WindowedStage)
    return text_frontend, acoustic, vocoder


def speak_without_noise(out: Path, ids: list[int], speaker_id: int) -> Array:
    """The stages one after the other, with no code of the importer: no noise, no windows, batch 1."""
    speaker = np.asarray([speaker_id], dtype=np.int64)

    def run(file: str, **feeds: Array) -> list[Array]:
        graph = session(out / file)
        wanted = {entry.name for entry in graph.get_inputs()}
        return list(graph.run(None, {k: v for k, v in {**feeds, "speaker_id": speaker}.items() if k in wanted}))

    durations, mean, _ = run(
        "acoustic/encoder.onnx",
        phoneme_ids=np.asarray([ids], dtype=np.int64),
        lengths=np.asarray([len(ids)], dtype=np.int64),
        duration_noise=np.zeros((1, 2, len(ids)), dtype=np.float32),
    )
    frames = np.ceil(durations[0, 0]).astype(np.int64)
    latent = np.repeat(mean, frames, axis=2)
    mask = np.ones((1, 1, latent.shape[2]), dtype=np.float32)
    (features,) = run("acoustic/decoder.onnx", latent=latent, mask=mask)
    (audio,) = run("vocoder/generator.onnx", features=features)
    return np.asarray(audio[0, 0])


def original_without_noise(file: Path, ids: list[int], speaker_id: int) -> Array:
    """The untouched source graph, run as Piper runs it."""
    graph = session(file)
    feeds = {
        "input": np.asarray([ids], dtype=np.int64),
        "input_lengths": np.asarray([len(ids)], dtype=np.int64),
        "scales": np.asarray([0.0, 1.0, 0.0], dtype=np.float32),
        "speaker": np.asarray([speaker_id], dtype=np.int64),
    }
    wanted = {entry.name for entry in graph.get_inputs()}
    (audio,) = graph.run(None, {k: v for k, v in feeds.items() if k in wanted})
    return np.asarray(audio.reshape(-1))


def random_ids(count: int, seed: int) -> list[int]:
    return [1, *np.random.default_rng(seed).integers(3, 120, count).tolist(), 2]


def test_writes_three_stages_whose_files_match_their_hashes(imported_joe: Imported):
    assert sorted(p.relative_to(imported_joe.out).as_posix() for p in imported_joe.out.rglob("*.*")) == [
        "acoustic/decoder.onnx",
        "acoustic/encoder.onnx",
        "acoustic/stage.yaml",
        "text_frontend/inventory.json",
        "text_frontend/stage.yaml",
        "vocoder/generator.onnx",
        "vocoder/stage.yaml",
    ]
    for name in ("text_frontend", "acoustic", "vocoder"):
        stage = read_stage(imported_joe.out / name)
        assert stage.stage == name
        verify_files(imported_joe.out / name, stage)


def test_the_stages_say_what_the_untouched_voice_says(imported_joe: Imported):
    for count, seed in ((11, 1), (75, 2)):
        ids = random_ids(count, seed)
        original = original_without_noise(imported_joe.source.onnx_file, ids, 0)
        ours = speak_without_noise(imported_joe.out, ids, 0)
        assert ours.shape == original.shape
        assert np.abs(original).max() > 0.01, "the voice must not be silent"
        assert np.abs(ours - original).max() < 1e-5


def test_each_speaker_sounds_as_in_the_untouched_voice_and_unlike_the_others(imported_trio: Imported):
    ids = random_ids(30, 3)
    spoken = []
    for speaker_id in range(3):
        original = original_without_noise(imported_trio.source.onnx_file, ids, speaker_id)
        ours = speak_without_noise(imported_trio.out, ids, speaker_id)
        assert ours.shape == original.shape
        assert np.abs(ours - original).max() < 1e-5
        spoken.append(ours)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        shorter = min(spoken[a].size, spoken[b].size)
        assert np.abs(spoken[a][:shorter] - spoken[b][:shorter]).max() > 0.01


def test_the_proof_holds_for_ten_texts_and_is_kept_in_the_stages(imported_joe: Imported):
    proof = imported_joe.result.proof
    assert proof["texts"] == 10
    assert proof["frames_equal"] is True
    assert proof["frames"] > proof["ids"]
    assert proof["durations_max_rel_diff"] <= 1e-4
    assert proof["wide_noise_max_rel_diff"] <= 1e-4
    assert proof["max_abs_diff"]["audio"] <= 1e-4
    assert proof["max_abs_diff"]["windows"] <= 1e-5
    assert proof["max_abs_diff"]["batch_of_two"] <= 1e-3
    _, acoustic, vocoder = stages(imported_joe.out)
    assert acoustic.quality["proof"] == proof
    assert vocoder.quality["proof"] == proof
    assert vocoder.quality["loudness"] == imported_joe.result.loudness
    assert 0.05 < imported_joe.result.loudness["peak"] <= 1.0
    assert -40 < imported_joe.result.loudness["rms_dbfs"] < -10


def test_progress_only_grows_and_ends_with_the_proof(imported_joe: Imported):
    shares = [share for _, share in imported_joe.messages]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert "largest difference of the waveform" in imported_joe.messages[-1][0]
    assert sum(message.startswith("proof text") for message, _ in imported_joe.messages) == 10


def test_single_speaker_interfaces_fit_together(imported_joe: Imported):
    text_frontend, acoustic, vocoder = stages(imported_joe.out)
    inventory = imported_joe.out / "text_frontend" / "inventory.json"
    assert text_frontend.interface.inventory_sha256 == sha256_of(inventory)
    assert acoustic.interface.inventory_sha256 == sha256_of(inventory)
    assert text_frontend.options.speakers == ["default"]
    assert text_frontend.options.language == imported_joe.result.language == "en-US"
    assert text_frontend.options.phonemizer == "cmudict"
    assert text_frontend.options.phonemizer_voice == "en-us"
    assert (text_frontend.interface.speakers, acoustic.interface.speakers) == (1, 1)
    for stage in (acoustic, vocoder):
        assert stage.interface.feature_kind == "vits_latent"
        assert stage.interface.channels == 192
        assert stage.interface.hop_length_samples == 256
        assert stage.interface.sample_rate_hz == 22050
    assert vocoder.options.window_frames == 128
    assert vocoder.options.first_window_frames == 48
    assert vocoder.options.overlap_frames == 11
    assert vocoder.options.gain * imported_joe.result.loudness["peak"] == pytest.approx(0.6, abs=2e-3)
    assert acoustic.options.noise_scale == 0.667
    assert acoustic.options.noise_w_scale == 0.8
    assert acoustic.options.length_scale == 1.0


def test_the_inventory_is_the_voices_phoneme_table(imported_joe: Imported):
    inventory = json.loads((imported_joe.out / "text_frontend" / "inventory.json").read_text(encoding="utf-8"))
    assert inventory["phonemes"] == imported_joe.source.config()["phoneme_id_map"]
    assert (inventory["bos"], inventory["eos"], inventory["pad"]) == ("^", "$", "_")


def test_provenance_names_sources_hashes_licence_and_tools(imported_joe: Imported):
    for stage in stages(imported_joe.out):
        assert stage.provenance["source"] == "en_US-joe-medium.onnx"
        assert stage.provenance["source_sha256"] == sha256_of(imported_joe.source.onnx_file)
        assert stage.provenance["config_sha256"] == sha256_of(imported_joe.source.config_file)
        assert stage.provenance["licence"] == "test licence"
        assert {"voxrepo", "onnx", "onnxruntime"} == set(stage.provenance["tools"])


@pytest.mark.parametrize("voice", ["imported_joe", "imported_trio"])
def test_graph_tensors_are_exactly_those_of_the_stage_programs(voice: str, request: pytest.FixtureRequest):
    imported: Imported = request.getfixturevalue(voice)
    several = voice == "imported_trio"
    hidden = imported.result.channels
    speaker = [("speaker_id", "INT64", ["batch"])] if several else []
    expected = {
        "encoder": (
            [
                ("phoneme_ids", "INT64", ["batch", "ids"]),
                ("lengths", "INT64", ["batch"]),
                ("duration_noise", "FP32", ["batch", 2, "ids"]),
                *speaker,
            ],
            [
                ("durations", "FP32", ["batch", 1, "ids"]),
                ("mean", "FP32", ["batch", 192, "ids"]),
                ("log_scale", "FP32", ["batch", 192, "ids"]),
            ],
        ),
        "decoder": (
            [("latent", "FP32", ["batch", 192, "frames"]), ("mask", "FP32", ["batch", 1, "frames"]), *speaker],
            [("features", "FP32", ["batch", hidden, "frames"])],
        ),
        "generator": (
            [("features", "FP32", ["batch", hidden, "frames"])],
            [("audio", "FP32", ["batch", 1, "samples"])],
        ),
    }
    _, acoustic, vocoder = stages(imported.out)
    listed = {**acoustic.graphs, **vocoder.graphs}
    assert set(listed) == set(expected)
    onnx_types = {"tensor(int64)": "INT64", "tensor(float)": "FP32"}
    for name, (inputs, outputs) in expected.items():
        folder = "vocoder" if name == "generator" else "acoustic"
        graph = session(imported.out / folder / listed[name].file)
        for in_yaml, in_file, wanted in (
            (listed[name].inputs, graph.get_inputs(), inputs),
            (listed[name].outputs, graph.get_outputs(), outputs),
        ):
            assert [(t.name, t.dtype, t.dims) for t in in_yaml] == wanted
            assert [(t.name, onnx_types[t.type], t.shape) for t in in_file] == wanted


@pytest.mark.parametrize("voice", ["imported_joe", "imported_trio"])
@pytest.mark.parametrize("sizes", [{"batch": 1, "ids": 128, "frames": 256}, {"batch": 3, "ids": 17, "frames": 33}])
def test_at_fixed_sizes_every_tensor_has_a_fixed_shape(
    voice: str, sizes: dict[str, int], request: pytest.FixtureRequest
):
    imported: Imported = request.getfixturevalue(voice)
    for file in GRAPHS:
        model = onnx.load(imported.out / file)
        onnx.checker.check_model(model)
        operators = {node.op_type for node in model.graph.node}
        assert not operators & (DATA_DEPENDENT | RANDOM)
        folded = fold(model, sizes)
        known = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in (*folded.graph.value_info, *folded.graph.output)
            if all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
        }
        produced = [name for node in folded.graph.node for name in node.output if name]
        assert [name for name in produced if name not in known] == []
        assert "Range" not in {node.op_type for node in folded.graph.node}


def test_the_same_voice_gives_the_same_bytes(imported_joe: Imported, run_import: Importer, tmp_path: Path):
    again = run_import(joe(), tmp_path / "out", licence="test licence")
    assert again.result == imported_joe.result
    for file in sorted(imported_joe.out.rglob("*.*")):
        assert (again.out / file.relative_to(imported_joe.out)).read_bytes() == file.read_bytes(), file.name


def test_names_in_the_source_do_not_matter(imported_joe: Imported, run_import: Importer, tmp_path: Path):
    source = write_voice(tmp_path / "source", renamed(joe().model(), seed=5))
    again = run_import(source, tmp_path / "out")
    assert again.result == imported_joe.result
    for file in GRAPHS:
        assert sha256_of(again.out / file) == sha256_of(imported_joe.out / file), file


def test_several_speakers_are_cut_behind_the_generators_speaker_term(imported_trio: Imported):
    result = imported_trio.result
    assert result.feature_kind == "vits_hidden"
    # the first convolution (7 taps) is now part of the decoder and its 3 frames of reach with it
    assert result.overlap_frames == 8
    assert result.channels == 256
    assert result.proof["max_abs_diff"]["audio"] <= 1e-4
    assert result.proof["max_abs_diff"]["windows"] <= 1e-5
    _, acoustic, vocoder = stages(imported_trio.out)
    assert "speaker_id" not in [t.name for t in vocoder.graphs["generator"].inputs]
    assert acoustic.interface.speakers == 3
    for stage in (acoustic, vocoder):
        assert stage.interface.feature_kind == "vits_hidden"
        assert stage.interface.channels == 256


def test_speakers_are_listed_by_id_and_the_default_is_reported(imported_trio: Imported):
    text_frontend, _, _ = stages(imported_trio.out)
    assert text_frontend.options.speakers == ["anna", "1", "carl"]
    assert imported_trio.result.speakers == ("anna", "1", "carl")
    assert imported_trio.result.default_speaker == "carl"
    (note,) = imported_trio.result.notes
    assert "'carl'" in note
    assert "'anna'" in note


def test_speakers_can_be_mixed_in_one_batch(imported_trio: Imported):
    encoder = session(imported_trio.out / "acoustic" / "encoder.onnx")
    ids = np.asarray([random_ids(20, 4)] * 3, dtype=np.int64)
    feeds: dict[str, Array] = {
        "phoneme_ids": ids,
        "lengths": np.full(3, ids.shape[1], dtype=np.int64),
        "duration_noise": np.random.default_rng(0).standard_normal((3, 2, ids.shape[1]), dtype=np.float32),
        "speaker_id": np.arange(3, dtype=np.int64),
    }
    (together,) = encoder.run(["durations"], feeds)
    for row in range(3):
        (alone,) = encoder.run(["durations"], {name: value[row : row + 1] for name, value in feeds.items()})
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-3)
    assert np.abs(together[0] - together[1]).max() > 1e-3
