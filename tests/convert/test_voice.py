from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from tests.repository.tiny import make_voice
from voxrepo.convert import job as job_module
from voxrepo.convert import voice as voice_module
from voxrepo.convert.gear_choice import parse_gears
from voxrepo.convert.job import Job
from voxrepo.convert.records import SHIPPED_RECORD, read_record
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.sources import parse_what
from voxrepo.convert.staging import alone_in
from voxrepo.convert.target import find_target
from voxrepo.convert.voice import ConvertedVoice, convert_voice
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import STAGING_PREFIX, place_version
from voxrepo.repository.publishing import LOCK_FILE
from voxrepo.repository.voice import read_voice
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError, ConversionRefused, InvalidArgument, NotFound
from voxrepo_contract.stage import (
    LengthRegulatedStage,
    WindowedStage,
    read_stage,
    sha256_of,
    verify_files,
    write_stage,
)

from .graphs import CHANNELS, HOP, OVERLAP, decoder, generator, write_voice_of

GEARS = "batch=1,2;ids=64,300;frames=32,256"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path)
    write_voice_of(layout)
    return layout


def job(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "target": find_target("emulator"),
        "soc": parse_soc("Ascend910B3"),
        "precision": "origin",
        "gears": parse_gears(GEARS),
        "record": read_record(SHIPPED_RECORD),
        "record_name": "shipped",
        "longest_ids": 300,
        "command": "voxrepo convert tiny",
    }
    return Job(**{**values, **changes})


def convert(layout: Layout, what: str = "tiny", *, use: bool = True, **changes: Any) -> ConvertedVoice:
    parsed = parse_what(what, layout.voice_names())
    return convert_voice(layout, parsed, job(**changes), use=use, progress=lambda message, share: None)


def everything(layout: Layout) -> dict[str, bytes]:
    files = [path for path in layout.root.rglob("*") if path.is_file() and path.name != LOCK_FILE]
    return {str(path.relative_to(layout.root)): path.read_bytes() for path in files}


def test_a_voice_gets_new_versions_of_both_stages_and_pins_them(layout: Layout):
    made = convert(layout)
    assert [(v.stage, v.version, v.source_version, v.made) for v in made.versions] == [
        ("acoustic", 2, 1, True),
        ("vocoder", 2, 1, True),
    ]
    assert read_voice(layout, "tiny").versions == {"text_frontend": 1, "acoustic": 2, "vocoder": 2}
    check_voice(layout, "tiny")
    assert made.before == {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
    assert not list(layout.model_repository.glob(f"{STAGING_PREFIX}*"))
    config = (layout.model_repository / "tiny.vocoder" / "config.pbtxt").read_text(encoding="utf-8")
    assert "versions: 2" in config


def test_a_converted_stage_describes_its_gears_and_its_origin(layout: Layout):
    convert(layout)
    old = read_stage(layout.version_dir("tiny.acoustic", 1))
    new = read_stage(layout.version_dir("tiny.acoustic", 2))
    verify_files(layout.version_dir("tiny.acoustic", 2), new)
    encoder = new.graphs["encoder"]
    assert (encoder.file, encoder.device) == ("encoder.om", "npu")
    assert encoder.gears == [{"batch": b, "ids": n} for b in (1, 2) for n in (64, 300)]
    assert encoder.inputs == old.graphs["encoder"].inputs
    assert new.interface == old.interface
    assert new.provenance["licence"] == "test"
    note = new.provenance["conversion"]
    assert note["source_version"] == 1
    assert note["source_graphs"] == {name: graph.sha256 for name, graph in old.graphs.items()}
    assert (note["target"], note["soc"], note["command"]) == ("emulator", "Ascend910B3", "voxrepo convert tiny")
    assert set(note["tools"]) == {"voxrepo", "onnx", "onnxruntime"}
    for graph, outputs in (("encoder", {"durations", "mean", "log_scale"}), ("decoder", {"features"})):
        quality = new.quality["conversion"][graph]
        assert set(quality["max_diff"]) == outputs
        assert max(quality["max_diff"].values()) <= 1e-5
        assert quality["texts"] == 10 and quality["gears"] == 4 and quality["rows"] >= 10
    assert isinstance(new, LengthRegulatedStage)
    assert new.options.max_ids_per_segment == 300
    assert isinstance(old, LengthRegulatedStage)
    assert new.options.max_frames_per_segment == old.options.max_frames_per_segment > 256, "or long speech is squeezed"


def test_a_second_conversion_at_the_same_time_is_refused_and_changes_nothing(layout: Layout):
    before = everything(layout)
    with alone_in(layout.model_repository), pytest.raises(ConfigError, match="another conversion is at work here"):
        convert(layout)
    assert everything(layout) == before
    convert(layout)


def test_a_converted_generator_takes_a_mask(layout: Layout):
    convert(layout, "tiny.vocoder")
    folder = layout.version_dir("tiny.vocoder", 2)
    stage = read_stage(folder)
    graph = stage.graphs["generator"]
    assert [(t.name, t.dims) for t in graph.inputs] == [
        ("features", ["batch", CHANNELS, "frames"]),
        ("mask", ["batch", 1, "frames"]),
    ]
    assert graph.gears[1] == {"batch": 1, "frames": 256, "samples": 256 * HOP}
    assert stage.quality["loudness"] == {"peak": 0.5}
    assert isinstance(stage, WindowedStage)
    assert stage.options.window_frames == 256 and stage.options.overlap_frames == OVERLAP
    read = emulated_om.read(folder / graph.file)
    assert read.header.kind == "dims_gears"
    assert read.header.gears[1] == {"features": (1, CHANNELS, 256), "mask": (1, 1, 256)}
    assert read.header.outputs_by_gear[1] == {"audio": (1, 1, 256 * HOP)}
    features = np.random.default_rng(3).standard_normal((1, CHANNELS, 20)).astype(np.float32)
    padded = np.zeros((1, CHANNELS, 32), np.float32)
    padded[:, :, :20] = features
    mask = (np.arange(32) < 20).astype(np.float32)[None, None]
    session = ort.InferenceSession(read.onnx, providers=["CPUExecutionProvider"])
    source = ort.InferenceSession(generator().SerializeToString(), providers=["CPUExecutionProvider"])
    audio = session.run(["audio"], {"features": padded, "mask": mask})[0][:, :, : 20 * HOP]
    assert np.abs(audio - source.run(None, {"features": features})[0]).max() <= 1e-6


def test_no_use_leaves_the_voice_as_it_was(layout: Layout):
    before = layout.voice_file("tiny").read_bytes()
    made = convert(layout, use=False)
    assert layout.voice_file("tiny").read_bytes() == before
    assert all(version.path.is_dir() for version in made.versions)
    assert not made.used


def test_the_same_conversion_again_makes_nothing_new(layout: Layout):
    convert(layout, use=False)
    before = everything(layout)
    again = convert(layout, use=False)
    assert [(v.version, v.made) for v in again.versions] == [(2, False), (2, False)]
    assert everything(layout) == before
    # also from the converted version that is pinned meanwhile
    convert(layout)
    pinned = convert(layout)
    assert [(v.version, v.source_version, v.made) for v in pinned.versions] == [(2, 1, False), (2, 1, False)]
    assert read_voice(layout, "tiny").versions["vocoder"] == 2


def test_other_gears_make_another_version(layout: Layout):
    convert(layout)
    other = convert(layout, "tiny.vocoder", gears=parse_gears("batch=1;frames=64,128"))
    assert [(v.stage, v.version) for v in other.versions] == [("vocoder", 3)]
    assert read_voice(layout, "tiny").versions == {"text_frontend": 1, "acoustic": 2, "vocoder": 3}


def test_a_damaged_conversion_is_made_anew_beside_it(layout: Layout):
    convert(layout, "tiny.vocoder", use=False)
    damaged = layout.version_dir("tiny.vocoder", 2) / "generator.om"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert [(v.version, v.made) for v in convert(layout, "tiny.vocoder").versions] == [(3, True)]


def test_proposed_gears_are_proved_and_described(layout: Layout):
    made = convert(layout, "tiny.acoustic", gears=parse_gears("auto"))
    graphs = made.versions[0].spec.graphs
    assert 2 <= len(graphs["encoder"].gears) <= 24
    assert max(gear["ids"] for gear in graphs["encoder"].gears) >= 300
    assert made.notes == ()


def test_a_single_gear_makes_a_static_graph(layout: Layout):
    convert(layout, "tiny.vocoder", gears=parse_gears("batch=1;frames=64"))
    folder = layout.version_dir("tiny.vocoder", 2)
    assert emulated_om.read_header(folder / "generator.om").kind == "static"
    assert read_stage(folder).graphs["generator"].gears == [{"batch": 1, "frames": 64, "samples": 64 * HOP}]


def test_gears_shorter_than_segments_are_told(layout: Layout):
    made = convert(layout, "tiny.acoustic", gears=parse_gears("batch=1;ids=64;frames=64"))
    assert any("up to 300 ids and the longest gear has 64" in note for note in made.notes)
    stage = read_stage(layout.version_dir("tiny.acoustic", 2))
    assert isinstance(stage, LengthRegulatedStage) and stage.options.max_ids_per_segment == 64


def test_a_stage_whose_padding_is_heard_is_refused_and_nothing_is_left(tmp_path: Path):
    layout = Layout.of(tmp_path)
    write_voice_of(layout, decoder_graph=decoder(masked=False))
    before = everything(layout)
    with pytest.raises(ConversionRefused, match="the decoder in its gears is not the source"):
        convert(layout)
    assert everything(layout) == before
    assert not list(layout.model_repository.glob(f"{STAGING_PREFIX}*"))


def test_a_generator_that_cannot_be_masked_is_refused_with_its_file(tmp_path: Path):
    layout = Layout.of(tmp_path)
    write_voice_of(layout, generator_graph=generator(pads=[1, 0]))
    with pytest.raises(ConversionRefused, match=r"vocoder.1.generator\.onnx: .*ConvTranspose"):
        convert(layout, "tiny.vocoder")


def test_a_newer_converter_takes_no_older_result_for_its_own(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    assert convert(layout, "tiny.vocoder").versions[0].version == 2
    assert convert(layout, "tiny.vocoder@1").versions[0].version == 2
    monkeypatch.setattr(job_module, "CONVERTER_VERSION", job_module.CONVERTER_VERSION + 1)
    assert convert(layout, "tiny.vocoder@1").versions[0].version == 3


def test_a_failure_while_pinning_takes_the_new_versions_back(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    before = everything(layout)

    def fail(*_: Any) -> None:
        raise ConfigError("the disk is full")

    monkeypatch.setattr(voice_module, "publish_configs", fail)
    with pytest.raises(ConfigError, match="the disk is full"):
        convert(layout)
    assert everything(layout) == before


def test_a_rival_that_took_the_number_is_not_overwritten(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    from voxrepo_contract.errors import AlreadyExists

    rival = layout.version_dir("tiny.vocoder", 2)
    real = place_version

    def late(*arguments: Any) -> Path:
        if arguments[1] == "tiny.vocoder":
            rival.mkdir()
            (rival / "theirs").write_text("x")
        return real(*arguments)

    monkeypatch.setattr(voice_module, "place_version", late)
    with pytest.raises(AlreadyExists):
        convert(layout)
    assert [path.name for path in rival.iterdir()] == ["theirs"]
    assert not layout.version_dir("tiny.acoustic", 2).exists()
    assert read_voice(layout, "tiny").versions["acoustic"] == 1


def test_what_a_killed_conversion_left_is_removed(layout: Layout):
    left = layout.model_repository / f"{STAGING_PREFIX}999999999-x"
    left.mkdir()
    convert(layout, "tiny.vocoder")
    assert not left.exists()


def test_a_damaged_source_is_refused(layout: Layout):
    file = layout.version_dir("tiny.vocoder", 1) / "generator.onnx"
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(ConfigError, match="damaged or replaced"):
        convert(layout, "tiny.vocoder")


def test_a_version_made_for_a_device_is_no_source(layout: Layout):
    convert(layout, "tiny.vocoder")
    with pytest.raises(ConfigError, match=r"made for a device already; .*tiny\.vocoder@1"):
        convert(layout, "tiny.vocoder@2")
    assert convert(layout, "tiny.vocoder@1").versions[0].version == 2


def test_graphs_that_are_no_graphs_are_refused(tmp_path: Path):
    layout = Layout.of(tmp_path)
    write_voice_of(layout)
    folder = layout.version_dir("tiny.vocoder", 1)
    (folder / "generator.onnx").write_text("not a graph")
    stage = read_stage(folder)
    changed = stage.graphs["generator"].model_copy(update={"sha256": sha256_of(folder / "generator.onnx")})
    write_stage(folder, stage.model_copy(update={"graphs": {"generator": changed}}))
    with pytest.raises(ConfigError, match="this is a text file, not an ONNX graph"):
        convert(layout, "tiny.vocoder")


def test_a_voice_without_a_phoneme_table_cannot_be_proved(tmp_path: Path):
    layout = Layout.of(tmp_path)
    make_voice(layout)
    with pytest.raises(ConfigError, match=r"inventory\.json: .*lacks 'phonemes'"):
        convert(layout, "tiny.acoustic")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("tiny.text_frontend", InvalidArgument, "acoustic and vocoder"),
        ("tiny.speaker", InvalidArgument, "acoustic and vocoder"),
        ("tiny@1", InvalidArgument, "tiny.vocoder@1"),
        ("tiny.vocoder@0", InvalidArgument, "VOICE.stage@version"),
        ("tiny.vocoder@x", InvalidArgument, "VOICE.stage@version"),
        ("../x", InvalidArgument, "neither an .onnx file"),
        ("other", NotFound, "there are: tiny"),
        ("other.vocoder", NotFound, "no voice 'other'"),
        ("tiny.vocoder@9", NotFound, "has no version 9"),
    ],
)
def test_what_does_not_exist_is_refused(layout: Layout, text: str, error: type[Exception], words: str):
    with pytest.raises(error, match=re.escape(words)):
        convert(layout, text)


def test_a_voice_may_have_a_dot_in_its_name():
    assert parse_what("a.b.vocoder@3", ["a.b"]).version == 3
    assert parse_what("a.vocoder", ["a.vocoder"]).stages == ("acoustic", "vocoder")
