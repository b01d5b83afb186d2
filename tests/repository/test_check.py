from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import edit_yaml
from voxrepo.repository import check
from voxrepo.repository.check import check_model, check_voice, mismatch, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.state import ModelStatus
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.stage import Interface

from .tiny import CHANNELS, DIRECT_CONFIG, SAMPLE_RATE_HZ, make_model, make_python_model, make_voice, write_stages


@pytest.fixture
def voice(layout: Layout) -> Layout:
    make_voice(layout)
    return layout


def stage_file(layout: Layout, stage: str, version: int = 1) -> Path:
    return layout.version_dir(f"tiny.{stage}", version) / "stage.yaml"


def refusal(layout: Layout) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check_voice(layout, "tiny")
    return caught.value


def test_a_sound_voice_is_accepted(voice: Layout):
    checked = check_voice(voice, "tiny")
    assert checked.spec.voice == "tiny"
    assert set(checked.stages) == {"text_frontend", "acoustic", "vocoder"}
    assert checked.channels == CHANNELS


def test_a_missing_version_is_named(voice: Layout):
    edit_yaml(voice.voice_file("tiny"), stages__acoustic__version=2)
    error = refusal(voice)
    assert error.file == voice.version_dir("tiny.acoustic", 2)
    assert "the version directory is missing" in error.message


def test_a_missing_graph_is_named(voice: Layout):
    graph = voice.version_dir("tiny.acoustic", 1) / "decoder.onnx"
    graph.unlink()
    error = refusal(voice)
    assert error.file == graph
    assert "the file is missing; import or convert this version again" in error.message


def test_a_damaged_graph_is_named(voice: Layout):
    graph = voice.version_dir("tiny.vocoder", 1) / "generator.onnx"
    graph.write_bytes(b"graph generatoR")
    error = refusal(voice)
    assert error.file == graph
    assert "the file was damaged or replaced" in error.message


def test_a_stage_in_the_place_of_another_is_named(voice: Layout):
    shutil.rmtree(voice.version_dir("tiny.acoustic", 1))
    shutil.copytree(voice.version_dir("tiny.vocoder", 1), voice.version_dir("tiny.acoustic", 1))
    error = refusal(voice)
    assert error.file == stage_file(voice, "acoustic")
    assert "stage: is 'vocoder', but it is served as 'acoustic'" in error.message


@pytest.mark.parametrize(
    ("stage", "key", "value", "says"),
    [
        ("acoustic", "inventory_sha256", "1" * 64, ("text_frontend version 1", "inventory_sha256", "0" * 64, "1" * 64)),
        ("acoustic", "speakers", 2, ("text_frontend version 1 has speakers 1 and acoustic version 1 has 2",)),
        ("vocoder", "feature_kind", "mel", ("acoustic version 1 has feature_kind 'vits_latent'", "has 'mel'")),
        ("vocoder", "channels", 80, (f"has channels {CHANNELS} and vocoder version 1 has 80",)),
        ("vocoder", "hop_length_samples", 512, ("has hop_length_samples 256 and vocoder version 1 has 512",)),
        ("vocoder", "sample_rate_hz", 22050, (f"has sample_rate_hz {SAMPLE_RATE_HZ} and vocoder version 1 has 22050",)),
        ("vocoder", "channels", None, (f"has channels {CHANNELS} and vocoder version 1 has None",)),
        ("acoustic", "feature_kind", None, ("has feature_kind None and vocoder version 1 has 'vits_latent'",)),
    ],
)
def test_stages_that_do_not_fit_are_refused_with_both_values(
    voice: Layout, stage: str, key: str, value: Any, says: tuple[str, ...]
):
    edit_yaml(stage_file(voice, stage), **{f"interface__{key}": value})
    error = refusal(voice)
    assert error.file == voice.voice_file("tiny")
    assert all(part in error.message for part in says)
    assert "pair versions that were made for each other" in error.message


def test_a_value_missing_on_both_sides_does_not_count_as_fitting():
    assert mismatch(Interface(), Interface(), ("channels",)) == ("channels", None, None)
    assert mismatch(Interface(channels=3), Interface(channels=3), ("channels",)) is None


def test_versions_of_one_voice_can_be_mixed_if_they_fit(voice: Layout):
    write_stages(voice, "tiny", version=2)
    edit_yaml(voice.voice_file("tiny"), stages__vocoder__version=2)
    assert check_voice(voice, "tiny").spec.versions == {"text_frontend": 1, "acoustic": 1, "vocoder": 2}


def test_a_broken_version_that_is_not_served_does_no_harm(voice: Layout):
    write_stages(voice, "tiny", version=2)
    stage_file(voice, "vocoder", 2).write_text("nonsense", encoding="utf-8")
    assert check_voice(voice, "tiny").spec.versions["vocoder"] == 1


def test_a_sample_rate_that_the_vocoder_does_not_have_is_refused(voice: Layout):
    edit_yaml(voice.voice_file("tiny"), sample_rate_hz=8000)
    error = refusal(voice)
    assert f"sample_rate_hz: is 8000, the vocoder makes {SAMPLE_RATE_HZ}" in error.message


def test_another_number_of_speakers_is_refused(voice: Layout):
    edit_yaml(voice.voice_file("tiny"), speakers=["joe", "ann"])
    assert "speakers: lists 2 names, the acoustic stage knows 1" in refusal(voice).message


def test_other_speaker_names_than_the_front_end_knows_are_refused(voice: Layout):
    edit_yaml(voice.voice_file("tiny"), speakers=["ann"])
    assert "speakers: is ['ann'], the text front end knows ['joe']" in refusal(voice).message


@pytest.mark.parametrize("name", ["2.bak", "02", "2.0", "-3", "0", "2_old", "9" * 19, "1 "])
def test_folders_that_the_engine_would_misread_as_versions_are_refused(voice: Layout, name: str):
    (voice.model_repository / "tiny.vocoder" / name).mkdir()
    error = refusal(voice)
    assert error.file == voice.model_repository / "tiny.vocoder" / name
    assert "rename it to a plain number from 1 up, or move it out" in error.message


@pytest.mark.parametrize("name", ["old", ".git", "backup-2", "v2"])
def test_folders_that_nobody_takes_for_a_version_are_left_alone(voice: Layout, name: str):
    (voice.model_repository / "tiny.vocoder" / name).mkdir()
    check_voice(voice, "tiny")


def test_a_file_that_looks_like_a_version_is_left_alone(voice: Layout):
    (voice.model_repository / "tiny.vocoder" / "2.txt").write_text("notes", encoding="utf-8")
    check_voice(voice, "tiny")


@pytest.mark.parametrize("name", ["a b", "caf\u00e9", "a;b", "$(reboot)", ".hidden", "-x"])
def test_a_voice_with_an_unsafe_name_is_refused(layout: Layout, name: str):
    folder = layout.ensembles / name
    folder.mkdir()
    (folder / "voice.yaml").write_text("", encoding="utf-8")
    (problem,) = take_inventory(layout).problems
    assert problem.model == name
    assert "rename the folder" in problem.reason


def test_a_voice_named_like_a_model_is_refused(voice: Layout):
    make_model(voice, "tiny")
    error = refusal(voice)
    assert error.file == voice.model_repository / "tiny"
    assert "the engine loads neither of two; rename this folder" in error.message


def test_a_folder_named_like_a_stage_beside_the_voices_is_refused(voice: Layout):
    (voice.ensembles / "tiny.vocoder").mkdir()
    assert refusal(voice).file == voice.ensembles / "tiny.vocoder"


@pytest.mark.parametrize("repository", ["model_repository", "ensembles"])
def test_a_model_named_like_the_stream_of_a_voice_is_refused(voice: Layout, repository: str):
    folder = getattr(voice, repository) / "tiny.stream"
    folder.mkdir()
    error = refusal(voice)
    assert error.file == folder
    assert "under which the voice 'tiny' is streamed" in error.message


def test_a_sound_model_is_accepted(layout: Layout):
    make_model(layout)
    make_python_model(layout)
    inventory = take_inventory(layout)
    assert inventory.problems == []
    assert {name: config.backend for name, config in inventory.models.items()} == {
        "echo": "ascend_om",
        "code": "python",
    }


def append(text: str) -> Callable[[Path], object]:
    return write_config((DIRECT_CONFIG + text).encode())


def write_config(data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "config.pbtxt").write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "file", "line", "says"),
    [
        (append("batch_size: 3\n"), "config.pbtxt", 6, "batch_size"),
        (append("max_batch_size: many\n"), "config.pbtxt", 6, "not a model configuration"),
        (append("input {\n"), "config.pbtxt", None, "not a model configuration"),
        (write_config(b"\xef\xbb\xbf" + DIRECT_CONFIG.encode()), "config.pbtxt", None, "byte order mark"),
        (write_config(b'name: "caf\xe9"\n'), "config.pbtxt", None, "cannot be read as UTF-8 text"),
        (write_config(b'name: "other"\nbackend: "ascend_om"\n'), "config.pbtxt", None, "name: is 'other' in a folder"),
        (lambda folder: shutil.rmtree(folder / "1"), "", None, "has no version directory (a folder named 1, 2, ...)"),
        (lambda folder: (folder / "2.bak").mkdir(), "2.bak", None, "misread this directory name"),
        (lambda folder: (folder / "2").mkdir(), "2", None, "holds neither model.onnx nor model.om nor a stage.yaml"),
        (lambda folder: (folder / "1" / "model.onnx").unlink(), "1/model.onnx", None, "the file is missing"),
        (lambda folder: (folder / "1" / "model.onnx").write_bytes(b"x"), "1/model.onnx", None, "sha256 is"),
        (lambda folder: (folder / "1" / "stage.yaml").write_text("a: 1\n"), "1/stage.yaml", 1, "program: required key"),
    ],
)
def test_a_broken_model_is_named_with_file_and_reason(
    layout: Layout, damage: Callable[[Path], object], file: str, line: int | None, says: str
):
    folder = make_model(layout)
    damage(folder)
    with pytest.raises(ConfigError) as caught:
        check_model(folder)
    assert caught.value.file == folder / file
    assert says in caught.value.message
    if line is not None:
        assert caught.value.line == line


def test_a_model_of_code_needs_its_configuration(layout: Layout):
    folder = make_python_model(layout)
    (folder / "config.pbtxt").unlink()
    with pytest.raises(ConfigError, match="every model needs its configuration"):
        check_model(folder)


def test_a_python_model_without_its_code_is_refused(layout: Layout):
    folder = make_python_model(layout)
    (folder / "1" / "model.py").unlink()
    with pytest.raises(ConfigError) as caught:
        check_model(folder)
    assert caught.value.file == folder / "1" / "model.py"


def test_a_python_model_may_name_its_code_otherwise(layout: Layout):
    folder = make_python_model(layout, config='default_model_filename: "main.py"\n')
    with pytest.raises(ConfigError, match=r"main\.py: the file is missing"):
        check_model(folder)
    (folder / "1" / "model.py").rename(folder / "1" / "main.py")
    check_model(folder)


def test_a_broken_voice_hides_neither_voices_nor_models(voice: Layout):
    make_voice(voice, "broken")
    (voice.model_repository / "broken.acoustic" / "1" / "encoder.onnx").unlink()
    make_voice(voice, "alsogood")
    make_model(voice)
    seen: list[str] = []
    inventory = take_inventory(voice, seen.append)
    assert set(inventory.voices) == {"tiny", "alsogood"}
    assert set(inventory.models) == {"echo"}
    (problem,) = inventory.problems
    assert problem.model == "broken"
    assert problem.kind == "voice"
    assert "encoder.onnx: the file is missing" in problem.reason
    assert seen == ["alsogood", "broken", "tiny", "echo"]


def test_the_stages_of_a_broken_voice_are_not_served_as_models(voice: Layout):
    voice.voice_file("tiny").write_text("nonsense", encoding="utf-8")
    inventory = take_inventory(voice)
    assert inventory.models == {}
    assert [problem.model for problem in inventory.problems] == ["tiny"]


def test_stages_without_a_voice_are_named(layout: Layout):
    write_stages(layout, "orphan")
    assert {problem.model for problem in take_inventory(layout).problems} == {
        "orphan.text_frontend",
        "orphan.acoustic",
        "orphan.vocoder",
    }


def test_files_and_hidden_folders_beside_the_models_are_left_alone(voice: Layout):
    (voice.model_repository / "README.md").write_text("notes", encoding="utf-8")
    (voice.model_repository / ".staging-x").mkdir()
    (voice.ensembles / "README.md").write_text("notes", encoding="utf-8")
    assert take_inventory(voice).problems == []


def test_an_empty_root_holds_nothing(tmp_path: Path):
    inventory = take_inventory(Layout.of(tmp_path))
    assert (inventory.voices, inventory.models, inventory.problems) == ({}, {}, [])


def test_a_folder_that_cannot_be_read_is_a_problem_of_its_own(voice: Layout, monkeypatch: pytest.MonkeyPatch):
    make_model(voice)

    def forbidden(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(check, "check_version_names", forbidden)
    inventory = take_inventory(voice)
    assert {problem.model for problem in inventory.problems} == {"tiny", "echo"}
    assert all("Permission denied" in problem.reason for problem in inventory.problems)


def test_a_name_that_is_not_text_can_still_be_reported(layout: Layout):
    folder = os.fsencode(layout.model_repository) + b"/bad\xff"
    os.mkdir(folder)  # noqa: PTH102  a path of bytes
    (problem,) = take_inventory(layout).problems
    assert problem.model == "bad\\udcff"
    status = ModelStatus(name=problem.model, kind="model", state="failed", reason=problem.reason)
    assert "rename the folder" in status.model_dump_json()
