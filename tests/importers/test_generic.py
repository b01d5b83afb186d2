"""Voices made of two graphs, and pairs that must be refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from voxrepo.importers.generic import builder
from voxrepo.importers.generic_check import stage_feeds
from voxrepo.importers.generic_frontend import Marks
from voxrepo.importers.generic_request import GenericRequest
from voxrepo.importers.generic_source import newest_opset
from voxrepo.importers.install import install_voice
from voxrepo.importers.onnx_run import open_session, run
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout, backends_folder
from voxrepo_contract.errors import ConfigError, ConversionRefused, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import read_stage

from .generic_pairs import RATE_HZ, PairFiles, matcha_pair, sine_vocoder

sys.path.insert(0, str(backends_folder() / "ascend_om"))

from om_backend.job import Job
from om_backend.programs import load_program
from om_backend.runtime import RuntimeSettings


def request_for(pair: PairFiles, **changes: Any) -> GenericRequest:
    request = GenericRequest(
        frontend=pair.frontend,
        acoustic=pair.acoustic,
        vocoder=pair.vocoder,
        tokens=pair.tokens,
        sample_rate_hz=pair.sample_rate_hz,
    )
    return replace(request, **changes)


def create(root: Path, request: GenericRequest) -> Any:
    return install_voice(Layout.of(root), "made", builder(request, lambda text, share: None), "")


def spoken(version_dir: Path, inputs: dict[str, Any], parameters: dict[str, object] | None = None) -> dict[str, Any]:
    """One request through the backend's own program."""
    program = load_program(version_dir, RuntimeSettings(threads=1), 1)
    program.warm_up()
    answers: list[Any] = []
    program.run([Job(inputs, parameters or {}, answers.append, answers.append)])
    assert len(answers) == 1
    if isinstance(answers[0], VoxrepoError):
        raise answers[0]
    return dict(answers[0])


@pytest.fixture(scope="module")
def matcha(tmp_path_factory: pytest.TempPathFactory) -> PairFiles:
    return matcha_pair(tmp_path_factory.mktemp("matcha"))


@pytest.fixture(scope="module")
def made(matcha: PairFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    create(root, request_for(matcha))
    return root


def version_of(root: Path, stage: str) -> Path:
    return root / "model_repository" / f"made.{stage}" / "1"


def several(lengths: tuple[int, ...], seed: int = 5, speed: float = 1.0) -> dict[str, Any]:
    ids = np.random.default_rng(1).integers(3, 40, sum(lengths))
    feeds = stage_feeds(ids, seed, speed)
    return {
        **feeds,
        "segment_lengths": np.array([lengths], np.int32),
        "pause_ms": np.arange(len(lengths), dtype=np.int32)[None] * 10,
    }


def test_a_matcha_type_pair_becomes_a_voice_that_the_checks_accept(made: Path):
    voice = check_voice(Layout.of(made), "made")
    acoustic, vocoder = voice.stages["acoustic"], voice.stages["vocoder"]
    assert (acoustic.program, vocoder.program) == ("direct", "windowed")
    assert vocoder.interface.hop_length_samples == 256
    assert vocoder.interface.sample_rate_hz == RATE_HZ
    assert vocoder.quality["sound"]["level_dbfs"] == pytest.approx(-16, abs=6)
    assert vocoder.quality["proof"]["max_abs_diff"]["windows"] <= 1e-4
    assert voice.spec.limits.speed_min == 0.25


def test_it_speaks_through_the_programs_that_serve_it(made: Path):
    features = spoken(version_of(made, "acoustic"), several((20, 7)))
    assert features["features"].shape[1] == features["frame_lengths"].sum()
    assert features["pause_ms"].tolist() == [[0, 10]]
    audio = spoken(version_of(made, "vocoder"), features)["audio"]
    pauses = round(0.010 * RATE_HZ)
    assert audio.shape[1] == pytest.approx(features["features"].shape[1] * 256 + pauses, abs=2)
    assert 3000 < np.abs(audio.astype(int)).max() < 32_768


def test_a_segment_sounds_the_same_alone_and_among_others_and_differs_by_seed(made: Path):
    folder = version_of(made, "acoustic")
    together = spoken(folder, several((20, 7)))
    first = together["frame_lengths"][0, 0]
    ids = several((20, 7))["phoneme_ids"][0]
    alone = spoken(folder, stage_feeds(ids[20:], 5))
    np.testing.assert_array_equal(alone["features"], together["features"][:, first:])
    other = spoken(folder, stage_feeds(ids[20:], 6))
    assert np.abs(other["features"] - alone["features"]).max() > 1e-3


def test_speed_makes_it_shorter_and_longer(made: Path):
    folder = version_of(made, "acoustic")
    frames = [spoken(folder, several((30,), speed=speed))["features"].shape[1] for speed in (0.5, 1.0, 2.0)]
    assert frames[0] == pytest.approx(2 * frames[1], rel=0.1)
    assert frames[2] == pytest.approx(0.5 * frames[1], rel=0.15)


def test_a_voice_is_made_the_same_twice(matcha: PairFiles, made: Path, tmp_path: Path):
    create(tmp_path, request_for(matcha))
    for stage in ("text_frontend", "acoustic", "vocoder"):
        one, two = (read_stage(version_of(root, stage)) for root in (made, tmp_path))
        assert one == two


def test_seeded_noise_is_normal(tmp_path: Path):
    from voxrepo.importers.generic_noise import NodeWriter, noise_key, without_random_nodes

    writer = NodeWriter("w_")
    key = noise_key(writer, "seed", "ids")
    nodes, constants = without_random_nodes(
        [onnx.helper.make_node("RandomNormal", [], ["noise"], shape=[4, 5000])], key, "n_"
    )
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [*writer.nodes, *nodes],
        "noise",
        [value("seed", onnx.TensorProto.INT64, [1]), value("ids", onnx.TensorProto.INT64, ["n"])],
        [value("noise", onnx.TensorProto.FLOAT, [4, 5000])],
        [*writer.constants, *constants],
    )
    session = open_session(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    )

    def draw(seed: int, ids: list[int]) -> Any:
        feeds = {"seed": np.array([seed], np.int64), "ids": np.array(ids, np.int64)}
        return run(session, feeds, "noise")["noise"].reshape(-1).astype(np.float64)

    noise = draw(7, [1, 2, 3])
    assert abs(noise.mean()) < 0.03
    assert noise.std() == pytest.approx(1, abs=0.03)
    assert np.mean(np.abs(noise) > 1.96) == pytest.approx(0.05, abs=0.01)
    for lag in (1, 2, 5, 100, 5000):
        assert abs(np.corrcoef(noise[lag:], noise[:-lag])[0, 1]) < 0.04
    np.testing.assert_array_equal(noise, draw(7, [1, 2, 3]))
    for other in (draw(8, [1, 2, 3]), draw(7, [1, 3, 2]), draw(-(2**62), [1, 2, 3])):
        assert abs(np.corrcoef(noise, other)[0, 1]) < 0.04


def refused(tmp_path: Path, request: GenericRequest, kind: type[VoxrepoError] = ConversionRefused) -> str:
    with pytest.raises(kind) as caught:
        create(tmp_path / "root", request)
    left = [path for path in (tmp_path / "root").rglob("*") if path.is_file()]
    assert not left
    return str(caught.value)


@pytest.mark.parametrize(
    ("factor", "cause", "scale"),
    [
        (1 / np.log(10), "log10 where the natural log is expected", 2.3026),
        (20 / np.log(10), "dB where the natural log is expected", 0.11513),
    ],
)
def test_a_mel_of_another_scale_is_found_by_its_level(tmp_path: Path, factor: float, cause: str, scale: float):
    pair = matcha_pair(tmp_path / "pair", mel_factor=factor)
    # the vocoder is the one for natural logs
    message = refused(tmp_path, request_for(pair))
    assert "level" in message and "clipped" in message
    assert cause in message
    assert f"--mel-scale {scale:.5g} would fit" in message
    create(tmp_path / "root", request_for(pair, mel_scale=scale))


def test_other_bands_are_refused_with_both_numbers(tmp_path: Path):
    pair = matcha_pair(tmp_path / "pair", bands=20)
    onnx.save(sine_vocoder(bands=25), str(pair.vocoder))
    message = refused(tmp_path, request_for(pair))
    assert "20" in message and "25" in message


def test_swapped_files_are_told(tmp_path: Path, matcha: PairFiles):
    message = refused(tmp_path, request_for(matcha, acoustic=matcha.vocoder, vocoder=matcha.acoustic))
    assert "the wrong way round" in message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"acoustic": {"sampling_rate": 22050}, "vocoder": {"sampling_rate": 16000}}, ["22050", "16000"]),
        ({"sampling_rate": 22050, "hop_size": 300}, ["hop_size is 300", "256 samples"]),
        ({"sampling_rate": "fast"}, ["a number is expected"]),
    ],
)
def test_a_configuration_that_contradicts_is_refused(tmp_path: Path, matcha: PairFiles, config: Any, words: list[str]):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    message = refused(tmp_path, request_for(matcha, config=file, sample_rate_hz=None), VoxrepoError)
    assert all(word in message for word in words), message


def test_a_missing_sample_rate_is_asked_for(tmp_path: Path, matcha: PairFiles):
    assert "--sample-rate" in refused(tmp_path, request_for(matcha, sample_rate_hz=None), ConfigError)


def changed(pair: PairFiles, folder: Path, change: Callable[[Any], None]) -> PairFiles:
    folder.mkdir()
    model = onnx.load(str(pair.acoustic))
    change(model)
    onnx.save(model, str(folder / "acoustic.onnx"))
    return replace(pair, acoustic=folder / "acoustic.onnx")


def test_operators_that_are_too_new_are_refused(tmp_path: Path, matcha: PairFiles):
    def change(model: Any) -> None:
        model.opset_import[0].version = newest_opset() + 5

    message = refused(tmp_path, request_for(changed(matcha, tmp_path / "new", change)))
    assert f"operator set {newest_opset() + 5}" in message and "opset_version=17" in message


def test_missing_weights_are_refused(tmp_path: Path, matcha: PairFiles):
    folder = tmp_path / "split"
    folder.mkdir()
    model = onnx.load(str(matcha.acoustic))
    onnx.save(model, str(folder / "a.onnx"), save_as_external_data=True, location="w.bin", size_threshold=64)
    (folder / "w.bin").unlink()
    assert "keep it beside the graph" in refused(tmp_path, request_for(replace(matcha, acoustic=folder / "a.onnx")))


def test_what_is_no_graph_of_a_voice_is_refused(tmp_path: Path, matcha: PairFiles):
    text = tmp_path / "a.onnx"
    text.write_text("no graph", encoding="utf-8")
    assert "not an ONNX file" in refused(tmp_path, request_for(replace(matcha, acoustic=text)))
    assert "no such file" in refused(tmp_path, request_for(replace(matcha, acoustic=tmp_path / "none")), ConfigError)


def test_an_input_without_a_known_role_is_asked_about_and_can_be_told(tmp_path: Path, matcha: PairFiles):
    def change(model: Any) -> None:
        value = onnx.helper.make_tensor_value_info
        model.graph.input.append(value("tone", onnx.TensorProto.INT64, [1]))

    pair = changed(matcha, tmp_path / "tone", change)
    message = refused(tmp_path, request_for(pair))
    assert "'tone' (INT64 [1])" in message and "--set tone=NUMBER" in message
    create(tmp_path / "root", request_for(pair, constants={"tone": 0.0}))
    with pytest.raises(InvalidArgument, match="no input 'nothing'"):
        create(tmp_path / "other", request_for(pair, inputs={"nothing": "ids"}))


def test_a_table_with_more_symbols_than_the_graph_knows_is_refused(tmp_path: Path, matcha: PairFiles):
    assert matcha.tokens is not None
    more = tmp_path / "tokens.txt"
    more.write_text(matcha.tokens.read_text(encoding="utf-8") + "ø 400\n", encoding="utf-8")
    message = refused(tmp_path, request_for(matcha, tokens=more), ConfigError)
    assert "goes up to the id 400" in message


def test_marks_that_are_not_in_the_table_are_refused(tmp_path: Path, matcha: PairFiles):
    message = refused(tmp_path, request_for(matcha, marks=Marks(bos=("<s>",))), ConfigError)
    assert "--bos '<s>'" in message
