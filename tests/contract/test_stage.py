from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from voxrepo_contract import tensors
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import VOICE_STAGES
from voxrepo_contract.stage import (
    STAGE_FILE,
    DirectStage,
    LengthRegulatedStage,
    TextFrontendStage,
    WindowedStage,
    read_stage,
    sha256_of,
    verify_files,
    write_stage,
)

DATA = b"weights of a graph"
SHA256 = hashlib.sha256(DATA).hexdigest()


def graph(**changes: Any) -> dict[str, Any]:
    return {
        "file": "graph.onnx",
        "sha256": SHA256,
        "inputs": [{"name": "x", "dtype": "FP32", "dims": ["batch", 2]}],
        "outputs": [{"name": "y", "dtype": "FP32", "dims": ["batch", 2]}],
        **changes,
    }


def vocoder(**changes: Any) -> dict[str, Any]:
    return {
        "program": "windowed",
        "stage": "vocoder",
        "graphs": {"generator": graph()},
        "options": {"window_frames": 32, "overlap_frames": 4},
        **changes,
    }


FRONT_END = {"language": "en-US", "phonemizer": "espeak", "phonemizer_voice": "en-us", "speakers": ["joe"]}
ACOUSTIC = {"noise_scale": 0.667, "noise_w_scale": 0.8, "length_scale": 1.0}


def place(folder: Path, data: dict[str, Any]) -> Path:
    (folder / STAGE_FILE).write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    (folder / "graph.onnx").write_bytes(DATA)
    return folder


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (vocoder(), WindowedStage),
        ({"program": "text_frontend", "stage": "text_frontend", "options": FRONT_END}, TextFrontendStage),
        (
            {
                "program": "length_regulated",
                "stage": "acoustic",
                "options": ACOUSTIC,
                "graphs": {"encoder": graph(), "decoder": graph()},
            },
            LengthRegulatedStage,
        ),
        ({"program": "direct", "stage": "model", "graphs": {"model": graph()}}, DirectStage),
    ],
)
def test_each_program_reads_back_as_it_was_written(data: dict[str, Any], kind: type[Any], tmp_path: Path):
    stage = read_stage(place(tmp_path, data))
    assert type(stage) is kind
    other = tmp_path / "2"
    other.mkdir()
    write_stage(other, stage)
    assert read_stage(other) == stage


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"program": "windowedd"}, "program: Input should be 'text_frontend', 'length_regulated'"),
        ({"schema_version": 2}, "schema_version: Input should be 1"),
        ({"stage": "decoder"}, "stage: Input should be"),
        ({"graphs": {}}, "graphs.generator: the program 'windowed' needs this graph"),
        ({"options": {"window_frames": 8, "overlap_frames": 4}}, "window_frames must exceed twice overlap_frames"),
        ({"options": {"window_frames": 0, "overlap_frames": 0}}, "options.window_frames"),
        ({"options": {"window_frames": 9, "overlap_frames": 4, "min_frames": 10}}, "not be below min_frames"),
        (
            {"options": {"window_frames": 32, "overlap_frames": 4, "first_window_frames": 8}},
            "first_window_frames must exceed twice overlap_frames and be at most window_frames",
        ),
        (
            {"options": {"window_frames": 32, "overlap_frames": 4, "first_window_frames": 33}},
            "be at most window_frames",
        ),
        (
            {"options": {"window_frames": 32, "overlap_frames": 4, "first_window_frames": 9, "min_frames": 10}},
            "first_window_frames must not be below min_frames",
        ),
        ({"options": {"window_frames": 32}}, "options.overlap_frames: required key is missing"),
        ({"options": {"window_frames": 32, "overlap_frames": 4, "gain": 0}}, "options.gain"),
        ({"options": {"window_frames": 32, "overlap_frames": 4, "window": 3}}, "options.window: unknown key"),
        ({"graphs": {"generator": graph(file="../graph.onnx")}}, "graphs.generator.file"),
        ({"graphs": {"generator": graph(file="/etc/passwd")}}, "graphs.generator.file"),
        ({"graphs": {"generator": graph(file="a/b.onnx")}}, "graphs.generator.file"),
        ({"graphs": {"generator": graph(file=".hidden")}}, "graphs.generator.file"),
        ({"graphs": {"generator": graph(file="graph.onnx\n")}}, "graphs.generator.file"),
        ({"graphs": {"generator": graph(sha256="abc")}}, "graphs.generator.sha256"),
        ({"graphs": {"generator": graph(sha256=SHA256.upper())}}, "graphs.generator.sha256"),
        ({"graphs": {"generator": graph(device="gpu")}}, "graphs.generator.device: Input should be 'cpu' or 'npu'"),
        ({"graphs": {"generator": graph(inputs=[])}}, "graphs.generator.inputs"),
        ({"graphs": {"generator": graph(gears=[{"frames": 0}])}}, "graphs.generator.gears.0.frames"),
        ({"interface": {"channels": 0}}, "interface.channels"),
        ({"interface": {"inventory_sha256": "x"}}, "interface.inventory_sha256"),
        ({"interface": {"colour": "red"}}, "interface.colour: unknown key"),
        ({"code": "model.py"}, "code: unknown key"),
    ],
)
def test_says_what_is_wrong_in_a_stage_file(changes: dict[str, Any], says: str, tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        read_stage(place(tmp_path, vocoder(**changes)))
    assert caught.value.file == tmp_path / STAGE_FILE
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"noise_w_scale": 0.8, "length_scale": 1.0}, "noise_scale must be given for the expansion gaussian"),
        ({"noise_scale": 0.6, "length_scale": 1.0}, "noise_w_scale must be given for the expansion gaussian"),
        ({**ACOUSTIC, "expansion": "repeat"}, "noise_scale must be left out for the expansion repeat"),
        ({**ACOUSTIC, "expansion": "copy"}, "options.expansion: Input should be 'gaussian' or 'repeat'"),
    ],
)
def test_noise_goes_with_the_expansion(options: dict[str, Any], says: str, tmp_path: Path):
    graphs = {"encoder": graph(), "decoder": graph()}
    data = {"program": "length_regulated", "stage": "acoustic", "options": options, "graphs": graphs}
    with pytest.raises(ConfigError) as caught:
        read_stage(place(tmp_path, data))
    assert says in caught.value.message


def test_a_repeating_stage_reads_back_as_it_was_written(tmp_path: Path):
    graphs = {"encoder": graph(), "decoder": graph()}
    options = {"expansion": "repeat", "length_scale": 1.0}
    stage = read_stage(
        place(tmp_path, {"program": "length_regulated", "stage": "acoustic", "options": options, "graphs": graphs})
    )
    other = tmp_path / "2"
    other.mkdir()
    write_stage(other, stage)
    assert read_stage(other) == stage


def test_says_that_the_stage_file_is_missing(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"stage\.yaml: the file is missing"):
        read_stage(tmp_path)


def test_files_as_listed_are_accepted(tmp_path: Path):
    verify_files(tmp_path, read_stage(place(tmp_path, vocoder())))


def test_a_changed_file_is_refused_with_both_hashes(tmp_path: Path):
    stage = read_stage(place(tmp_path, vocoder()))
    (tmp_path / "graph.onnx").write_bytes(DATA[:-1])
    with pytest.raises(ConfigError) as caught:
        verify_files(tmp_path, stage)
    assert caught.value.file == tmp_path / "graph.onnx"
    assert SHA256 in caught.value.message
    assert sha256_of(tmp_path / "graph.onnx") in caught.value.message


def test_a_missing_file_is_refused(tmp_path: Path):
    stage = read_stage(place(tmp_path, vocoder()))
    (tmp_path / "graph.onnx").unlink()
    with pytest.raises(ConfigError, match=r"graph\.onnx: the file is missing; import or convert"):
        verify_files(tmp_path, stage)


def test_data_files_are_verified_like_graphs(tmp_path: Path):
    entry = {"table": {"file": "table.json", "sha256": hashlib.sha256(b"{}").hexdigest()}}
    stage = read_stage(place(tmp_path, vocoder(files=entry)))
    (tmp_path / "table.json").write_bytes(b"{ }")
    with pytest.raises(ConfigError, match=r"table\.json: sha256 is"):
        verify_files(tmp_path, stage)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path):
    stage = read_stage(place(tmp_path, vocoder()))
    (tmp_path / "graph.onnx").unlink()
    (tmp_path / "graph.onnx").mkdir()
    with pytest.raises(ConfigError, match="the file is missing"):
        verify_files(tmp_path, stage)


def test_hash_covers_files_larger_than_one_read(tmp_path: Path):
    file = tmp_path / "large"
    data = bytes(range(256)) * 8192
    file.write_bytes(data)
    assert sha256_of(file) == hashlib.sha256(data).hexdigest()


def test_every_stage_takes_only_what_came_before():
    made = {spec.name for spec in tensors.VOICE_INPUTS}
    for stage in VOICE_STAGES:
        contract = tensors.stage_contract(stage, 192)
        assert {spec.name for spec in contract.inputs} <= made
        made |= {spec.name for spec in contract.outputs}
    assert {spec.name for spec in tensors.VOICE_OUTPUTS} <= made


def test_a_tensor_has_one_type_wherever_it_appears():
    seen: dict[str, tensors.TensorSpec] = {}
    for stage in VOICE_STAGES:
        contract = tensors.stage_contract(stage, 192)
        for spec in (*contract.inputs, *contract.outputs):
            assert seen.setdefault(spec.name, spec) == spec


def test_there_is_no_contract_for_other_stages():
    with pytest.raises(KeyError):
        tensors.stage_contract("decoder", 192)
