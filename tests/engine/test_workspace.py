from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.patience import UNPATCHED_PATIENCE_S
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import ConfigError

SOCKET_PATH_LIMIT_BYTES = 107


def test_links_repositories_and_backends_and_copies_the_python_backend(
    workspace: Workspace, layout: Layout, binary: EngineBinary
):
    workspace.create(layout, binary)
    models, ensembles = workspace.repositories
    assert models.resolve() == layout.model_repository.resolve()
    assert ensembles.resolve() == layout.ensembles.resolve()
    assert (workspace.backends / "ascend_om" / "model.py").is_file()
    assert (workspace.backends / "text_frontend" / "model.py").is_file()
    for file in binary.python_backend:
        copy = workspace.backends / "python" / file.name
        assert not copy.is_symlink()
        assert copy.read_bytes() == file.read_bytes()
    assert (workspace.backends / "python" / "voxrepo_contract" / "errors.py").is_file()


def test_says_how_long_the_engine_waits_for_stubs(workspace: Workspace, layout: Layout, binary: EngineBinary):
    # the library of this fixture is not the known one
    assert workspace.create(layout, binary) == UNPATCHED_PATIENCE_S


def test_a_repository_that_is_not_there_is_empty_for_the_engine(
    workspace: Workspace, layout: Layout, binary: EngineBinary
):
    shutil.rmtree(layout.ensembles)
    workspace.create(layout, binary)
    models, ensembles = workspace.repositories
    assert models.resolve() == layout.model_repository.resolve()
    assert list(ensembles.iterdir()) == []
    # nothing is made in the user's folder
    assert not layout.ensembles.exists()


def test_nobody_else_can_enter(workspace: Workspace, layout: Layout, binary: EngineBinary):
    workspace.create(layout, binary)
    assert stat.S_IMODE(workspace.path.parent.stat().st_mode) == 0o700


def test_a_parent_left_open_is_closed(workspace: Workspace, layout: Layout, binary: EngineBinary):
    workspace.path.parent.mkdir(mode=0o777)
    workspace.path.parent.chmod(0o777)
    workspace.create(layout, binary)
    assert stat.S_IMODE(workspace.path.parent.stat().st_mode) == 0o700


def test_a_parent_that_is_a_link_is_refused(workspace: Workspace, layout: Layout, binary: EngineBinary, tmp_path: Path):
    workspace.path.parent.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="belongs to another user; remove it or set TMPDIR"):
        workspace.create(layout, binary)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_parent_of_another_user_is_refused(workspace: Workspace, layout: Layout, binary: EngineBinary):
    workspace.path.parent.mkdir()
    os.chown(workspace.path.parent, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user; remove it or set TMPDIR"):
        workspace.create(layout, binary)


def test_a_file_in_the_parents_place_is_refused(workspace: Workspace, layout: Layout, binary: EngineBinary):
    workspace.path.parent.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be made: .*; remove what is there"):
        workspace.create(layout, binary)


def test_what_a_last_run_left_is_replaced(workspace: Workspace, layout: Layout, binary: EngineBinary):
    workspace.create(layout, binary)
    leftover = workspace.path / "engine.sock"
    leftover.write_text("", encoding="utf-8")
    workspace.create(layout, binary)
    assert not leftover.exists()
    assert workspace.backends.is_dir()


def test_removal_does_not_follow_links(workspace: Workspace, layout: Layout, binary: EngineBinary):
    precious = layout.model_repository / "precious"
    precious.write_text("x", encoding="utf-8")
    workspace.create(layout, binary)
    workspace.remove()
    assert not workspace.path.exists()
    assert precious.read_text(encoding="utf-8") == "x"
    workspace.remove()


@pytest.mark.parametrize("name", ["my voices", "st\u00fcmmen \u58f0\u97f3", "a'b\"c;d", "x" * 200])
def test_the_engine_sees_a_plain_short_path_whatever_the_root_is_called(
    runtime_dir: Path, tmp_path: Path, binary: EngineBinary, name: str
):
    layout = Layout.of(tmp_path / name)
    (layout.model_repository / "m").mkdir(parents=True)
    layout.ensembles.mkdir()
    workspace = Workspace.of(layout)
    workspace.create(layout, binary)
    assert (workspace.repositories[0] / "m").is_dir()
    assert workspace.grpc_target.isascii()
    assert " " not in workspace.grpc_target
    assert len(workspace.grpc_target.removeprefix("unix:")) <= SOCKET_PATH_LIMIT_BYTES


def test_each_root_has_a_workspace_of_its_own_and_always_the_same(runtime_dir: Path, tmp_path: Path):
    one, other = Layout.of(tmp_path / "one"), Layout.of(tmp_path / "other")
    assert Workspace.of(one) == Workspace.of(one)
    assert Workspace.of(one).path != Workspace.of(other).path
    assert Workspace.of(one).shm_prefix != Workspace.of(other).shm_prefix


def test_a_link_to_a_root_is_the_same_server(runtime_dir: Path, tmp_path: Path):
    (tmp_path / "one" / ".voxrepo").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "one")
    assert Workspace.of(Layout.of(tmp_path / "link")) == Workspace.of(Layout.of(tmp_path / "one"))


@pytest.mark.parametrize("bad", ["/nowhere/at/all", "", "/tmp/with blank", "/tmp/" + "x" * 100, ".", "/etc/hostname"])
def test_an_unusable_runtime_directory_is_passed_over(bad: str, layout: Layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", bad)
    assert Workspace.of(layout).path.is_relative_to(tempfile.gettempdir())


def test_no_usable_directory_at_all_is_said_in_one_sentence(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="set TMPDIR to one"):
        Workspace.of(layout)


def test_a_full_disk_is_said_in_one_sentence(
    workspace: Workspace, layout: Layout, binary: EngineBinary, monkeypatch: pytest.MonkeyPatch
):
    def no_room(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", no_room)
    with pytest.raises(ConfigError, match="cannot be built: No space left on device"):
        workspace.create(layout, binary)
