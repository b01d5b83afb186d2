from __future__ import annotations

import errno
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.harness import edit_yaml
from voxrepo.repository import publish
from voxrepo.repository.check import CheckedVoice, check_voice
from voxrepo.repository.layout import Layout, backends_folder
from voxrepo.repository.publish import place_version, publish_configs
from voxrepo_contract.errors import AlreadyExists, ConfigError

from .tiny import make_voice


@pytest.fixture
def voice(layout: Layout) -> CheckedVoice:
    make_voice(layout)
    return check_voice(layout, "tiny")


def config_files(layout: Layout) -> set[Path]:
    stages = {layout.model_repository / f"tiny.{stage}" for stage in ("text_frontend", "acoustic", "vocoder")}
    return {folder / "config.pbtxt" for folder in {*stages, layout.ensembles / "tiny"}}


def test_writes_one_configuration_per_model(layout: Layout, voice: CheckedVoice):
    assert set(publish_configs(layout, voice, cores=2)) == config_files(layout)
    for file in config_files(layout):
        config = text_format.Parse(file.read_text(encoding="utf-8"), ModelConfig())
        assert config.name == file.parent.name


def test_an_ensemble_gets_its_empty_version_directory(layout: Layout, voice: CheckedVoice):
    publish_configs(layout, voice, cores=2)
    assert list((layout.ensembles / "tiny" / "1").iterdir()) == []


def test_what_is_there_already_is_not_written_again(layout: Layout, voice: CheckedVoice):
    publish_configs(layout, voice, cores=2)
    before = {file: file.stat().st_ino for file in config_files(layout)}
    assert publish_configs(layout, voice, cores=2) == []
    assert {file: file.stat().st_ino for file in config_files(layout)} == before


def test_a_change_is_written_where_it_matters_and_nowhere_else(layout: Layout, voice: CheckedVoice):
    publish_configs(layout, voice, cores=2)
    edit_yaml(layout.voice_file("tiny"), stages__vocoder__max_batch_size=4)
    (written,) = publish_configs(layout, check_voice(layout, "tiny"), cores=2)
    assert written == layout.model_repository / "tiny.vocoder" / "config.pbtxt"


def test_another_machine_gets_another_number_of_instances(layout: Layout, voice: CheckedVoice):
    publish_configs(layout, voice, cores=2)
    assert {file.parent.name for file in publish_configs(layout, voice, cores=8)} == {"tiny.acoustic", "tiny.vocoder"}


@pytest.mark.parametrize("garbage", [b"edited by hand", b"\xff\xfe\x00", b""])
def test_a_configuration_edited_by_hand_is_rendered_again(layout: Layout, voice: CheckedVoice, garbage: bytes):
    publish_configs(layout, voice, cores=2)
    file = layout.ensembles / "tiny" / "config.pbtxt"
    file.write_bytes(garbage)
    assert publish_configs(layout, voice, cores=2) == [file]


def test_a_repository_that_cannot_be_written_is_refused_in_one_sentence(
    layout: Layout, voice: CheckedVoice, monkeypatch: pytest.MonkeyPatch
):
    def read_only(file: Path, text: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(file))

    monkeypatch.setattr(publish, "write_text_atomically", read_only)
    with pytest.raises(ConfigError, match=r"config\.pbtxt: cannot be written \(Read-only file system\)"):
        publish_configs(layout, voice, cores=2)


def test_a_repository_that_cannot_be_written_is_fine_while_nothing_changes(
    layout: Layout, voice: CheckedVoice, monkeypatch: pytest.MonkeyPatch
):
    publish_configs(layout, voice, cores=2)

    def read_only(file: Path, text: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(file))

    monkeypatch.setattr(publish, "write_text_atomically", read_only)
    assert publish_configs(layout, voice, cores=2) == []


def test_a_file_in_place_of_the_version_directory_is_refused(layout: Layout, voice: CheckedVoice):
    (layout.ensembles / "tiny" / "1").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be written"):
        publish_configs(layout, voice, cores=2)


def test_a_staged_version_is_moved_into_place(layout: Layout, tmp_path: Path):
    staged = tmp_path / "staged"
    staged.mkdir()
    (staged / "stage.yaml").write_text("x", encoding="utf-8")
    placed = place_version(layout, "new.acoustic", 3, staged)
    assert placed == layout.version_dir("new.acoustic", 3)
    assert (placed / "stage.yaml").read_text(encoding="utf-8") == "x"
    assert not staged.exists()


def test_a_version_that_is_there_is_never_replaced(layout: Layout, voice: CheckedVoice, tmp_path: Path):
    staged = tmp_path / "staged"
    staged.mkdir()
    with pytest.raises(AlreadyExists, match="has a version 1 already"):
        place_version(layout, "tiny.acoustic", 1, staged)
    assert staged.is_dir()
    assert (layout.version_dir("tiny.acoustic", 1) / "encoder.onnx").is_file()


def test_a_layout_is_absolute_whatever_it_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Layout.of(Path("a")).root == tmp_path / "a"
    assert Layout.of(Path("~/a")).state == tmp_path / "a" / ".voxrepo"
    assert Layout.of(Path("a"), Path("b")).state == tmp_path / "b"


def test_backends_come_with_the_installation():
    assert (backends_folder() / "ascend_om" / "model.py").is_file()
    assert (backends_folder() / "text_frontend" / "model.py").is_file()
