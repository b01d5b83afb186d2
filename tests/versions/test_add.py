"""Adding versions without speaking: staged, completed, checked, placed. The trial itself has tests of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from onnx import TensorProto

from tests.harness import edit_yaml
from tests.repository.tiny import write_stages
from voxrepo.convert.staging import alone_in
from voxrepo.repository.layout import Layout
from voxrepo.versions import add
from voxrepo.versions.add import AddedVersion, AddRequest, add_version
from voxrepo.versions.names import StageRef
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.stage import read_stage, sha256_of, verify_files

from .graphs import FEATURES, give_real_graphs, save_generator


def run(layout: Layout, stage: str, source: Path, **options: Any) -> AddedVersion:
    return add_version(layout, AddRequest(StageRef("tiny", stage), source, "voxrepo version add", **options))


def snapshot(layout: Layout) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(layout.root)): path.read_bytes() if path.is_file() else None
        for path in layout.root.rglob("*")
        if path != layout.state
    }


@pytest.fixture
def vocoder(layout: Layout) -> Layout:
    give_real_graphs(layout.version_dir("tiny.vocoder", 1))
    return layout


@pytest.fixture
def made(layout: Layout, tmp_path: Path) -> Path:
    """A folder with the three stages of the voice as another tool would write them."""
    other = Layout.of(tmp_path / "made")
    write_stages(other, "x")
    for stage in ("text_frontend", "acoustic", "vocoder"):
        other.version_dir(f"x.{stage}", 1).rename(tmp_path / "made" / stage)
        give_real_graphs(tmp_path / "made" / stage)
    return tmp_path / "made"


def test_a_folder_with_stage_yaml_becomes_the_next_version(layout: Layout, made: Path):
    before = snapshot(layout)
    added = run(layout, "vocoder", made / "vocoder", note="from the lab")
    assert (added.version, added.current) == (2, 1)
    assert added.path == layout.version_dir("tiny.vocoder", 2)
    verify_files(added.path, read_stage(added.path))
    noted = read_stage(added.path).provenance["added"]
    assert noted["note"] == "from the lab"
    assert noted["smoke"] == "skipped (--no-smoke)"
    assert noted["files"] == {"generator.onnx": sha256_of(added.path / "generator.onnx")}
    assert "completed_from" not in noted
    left = {name for name in snapshot(layout) if name not in before}
    assert left == {f"model_repository/tiny.vocoder/2{name}" for name in ("", "/stage.yaml", "/generator.onnx")}
    assert run(layout, "vocoder", made / "vocoder").version == 3


def test_a_single_graph_is_completed_from_the_current_version(vocoder: Layout, tmp_path: Path):
    file = save_generator(tmp_path / "better.onnx", ["n", 8, "t"], seed="better")
    added = run(vocoder, "vocoder", file)
    old, new = read_stage(vocoder.version_dir("tiny.vocoder", 1)), read_stage(added.path)
    assert (new.options, new.interface) == (old.options, old.interface)
    graph = new.graphs["generator"]
    assert graph.file == "generator.onnx"
    assert graph.sha256 == sha256_of(file) == sha256_of(added.path / "generator.onnx")
    assert graph.inputs[0].dims == FEATURES, "axes keep the names that the program goes by"
    assert new.provenance["added"]["completed_from"] == 1
    assert new.provenance["added"]["files"] == {"better.onnx": sha256_of(file)}
    assert new.quality == {}


def test_a_size_that_the_graph_fixes_is_kept(vocoder: Layout, tmp_path: Path):
    added = run(vocoder, "vocoder", save_generator(tmp_path / "g.onnx", ["batch", 8, 64]))
    assert read_stage(added.path).graphs["generator"].inputs[0].dims == ["batch", 8, 64]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"features": ["batch", 80, "frames"]},
            r"input 'features' is FP32 \[batch, 80, frames\], and FP32 \[batch, 8, f",
        ),
        (
            {"features": ["batch", 8]},
            r"input 'features' is FP32 \[batch, 8\], and FP32 \[batch, 8, frames\] in version 1",
        ),
        ({"elem_type": TensorProto.DOUBLE}, r"input 'features' is FP64 .*, and FP32 .* in version 1"),
        ({"name": "mel"}, r"has no input 'features' \(but mel\), and the graph 'generator' of version 1 has features"),
        ({"output": "wave"}, r"has no output 'audio' \(but wave\), and the graph 'generator' of version 1 has audio"),
    ],
)
def test_a_graph_with_other_tensors_is_refused_with_both_sides(
    vocoder: Layout, tmp_path: Path, options: dict[str, Any], message: str
):
    before = snapshot(vocoder)
    with pytest.raises(ConfigError, match=message):
        run(vocoder, "vocoder", save_generator(tmp_path / "g.onnx", **options))
    assert snapshot(vocoder) == before


def test_a_stage_with_several_graphs_asks_which_one_is_meant(layout: Layout, tmp_path: Path):
    file = save_generator(tmp_path / "part.onnx")
    with pytest.raises(InvalidArgument, match="may be any of the graphs encoder, decoder; say which with --graph"):
        run(layout, "acoustic", file)
    with pytest.raises(InvalidArgument, match="--graph 'middle': version 1 has encoder, decoder"):
        run(layout, "acoustic", file, graph="middle")


def test_a_data_file_takes_the_place_of_the_one_of_its_name(layout: Layout, tmp_path: Path):
    folder = layout.version_dir("tiny.text_frontend", 1)
    edit_yaml(
        folder / "stage.yaml", files__lexicon={"file": "words.tsv", "sha256": sha256_of(folder / "inventory.json")}
    )
    shutil.copy(folder / "inventory.json", folder / "words.tsv")
    (tmp_path / "words.tsv").write_text("joe\tJH OW\n", encoding="utf-8")
    added = run(layout, "text_frontend", tmp_path / "words.tsv")
    assert (added.path / "words.tsv").read_text(encoding="utf-8") == "joe\tJH OW\n"
    assert (added.path / "inventory.json").read_bytes() == (folder / "inventory.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("words.txt", b"x", r"neither a graph \(.onnx, .om\) nor named as a file of version 1 \(inventory.json\)"),
        ("x.onnx", b"", "the file is empty"),
        ("inventory.json", b"{1}", r"text_frontend version 2 has inventory_sha256 .* and acoustic version 1 has '0000"),
    ],
)
def test_another_file_is_refused(layout: Layout, tmp_path: Path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    before = snapshot(layout)
    with pytest.raises(InvalidArgument, match=message):
        run(layout, "text_frontend", tmp_path / name)
    assert snapshot(layout) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interface__channels": 80}, r"made/vocoder: interface.channels: is 80, but 8 in version 1"),
        ({"interface__sample_rate_hz": 48_000}, r"interface.sample_rate_hz: is 48000, but 16000 in version 1"),
        (
            {"interface__feature_kind": "mel80"},
            r"acoustic version 1 has feature_kind 'vits_latent' and vocoder version 2 h",
        ),
        ({"stage": "acoustic"}, r"stage: is 'acoustic', expected 'vocoder'"),
        ({"gain": 2}, "gain: unknown key"),
        ({"graphs__generator__sha256": "0" * 64}, r"made/vocoder/generator.onnx: sha256 is"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused_and_leaves_nothing(
    layout: Layout, made: Path, changes: dict[str, Any], message: str
):
    edit_yaml(made / "vocoder" / "stage.yaml", **changes)
    before = snapshot(layout)
    with pytest.raises(ConfigError, match=message):
        run(layout, "vocoder", made / "vocoder")
    assert snapshot(layout) == before


def test_a_missing_file_is_named(layout: Layout, made: Path):
    (made / "vocoder" / "generator.onnx").unlink()
    with pytest.raises(ConfigError, match=r"generator.onnx: stage.yaml lists it, and it is missing"):
        run(layout, "vocoder", made / "vocoder")


def test_a_version_may_be_made_for_other_versions_of_its_neighbours(layout: Layout, made: Path):
    for stage in ("acoustic", "vocoder"):
        edit_yaml(made / stage / "stage.yaml", interface__feature_kind="vits_hidden")
    with pytest.raises(ConfigError, match="feature_kind"):
        run(layout, "acoustic", made / "acoustic")
    shutil.move(made / "acoustic", layout.version_dir("tiny.acoustic", 2))
    assert run(layout, "vocoder", made / "vocoder", beside={"acoustic": 2}).version == 2
    with pytest.raises(ConfigError, match="the version directory is missing"):
        run(layout, "vocoder", made / "vocoder", beside={"acoustic": 9})
    with pytest.raises(InvalidArgument, match="that is the stage that gets a new version"):
        run(layout, "vocoder", made / "vocoder", beside={"vocoder": 1})


def test_weights_beside_the_graph_are_refused_unless_listed(
    layout: Layout, made: Path, monkeypatch: pytest.MonkeyPatch
):
    class Tensors:
        external_files = ("weights.bin",)

    monkeypatch.setattr("voxrepo.versions.source.read_onnx_tensors", lambda file: Tensors)
    with pytest.raises(ConfigError, match=r"keeps weights in another file, 'weights\.bin'"):
        run(layout, "vocoder", made / "vocoder")


@pytest.mark.parametrize("step", ["sync_folder", "place_version", "write_stage"])
def test_a_full_disk_leaves_nothing(layout: Layout, made: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    def no_room(*args: Any) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(add, step, no_room)
    before = snapshot(layout)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        run(layout, "vocoder", made / "vocoder")
    assert snapshot(layout) == before


def test_another_change_at_the_same_time_is_refused(layout: Layout, made: Path):
    with alone_in(layout.model_repository), pytest.raises(ConfigError, match="is at work here"):
        run(layout, "vocoder", made / "vocoder")


KILLED = """
import os, signal, sys
from pathlib import Path
from voxrepo.repository.layout import Layout
from voxrepo.versions import add
from voxrepo.versions.names import StageRef
def dies(*args):
    os.kill(os.getpid(), signal.SIGKILL)
add.place_version = dies
add.add_version(Layout.of(Path(sys.argv[1])), add.AddRequest(StageRef("tiny", "vocoder"), Path(sys.argv[2]), "x"))
"""


def test_a_kill_leaves_nothing_that_a_server_sees_and_the_next_one_cleans_up(layout: Layout, made: Path):
    before = snapshot(layout)
    command = [sys.executable, "-c", KILLED, str(layout.root), str(made / "vocoder")]
    killed = subprocess.run(command, env=os.environ, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = {name for name in snapshot(layout) if name not in before}
    assert left and all("/.staging-" in name for name in left)
    assert run(layout, "vocoder", made / "vocoder").version == 2
    assert not [name for name in snapshot(layout) if ".staging-" in name or "trial" in name]


def test_what_is_written_is_plain_yaml(layout: Layout, made: Path):
    added = run(layout, "vocoder", made / "vocoder")
    data = yaml.safe_load((added.path / "stage.yaml").read_text(encoding="utf-8"))
    assert data["provenance"]["added"]["source"] == "vocoder"
