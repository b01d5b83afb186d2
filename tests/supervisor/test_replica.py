from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from tests.supervisor.conftest import wait_until
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import STATUS_INTERVAL_S, ReplicaStatus, RolloutFolder, read_json
from voxrepo.supervisor import replica
from voxrepo.supervisor.replica import StatusFile, replica_name
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import is_model_name


def test_servers_of_one_root_have_different_names_that_stay(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Layout.of(layout.root, layout.root / "other-state")
    assert replica_name(layout) == replica_name(layout) != replica_name(other)
    monkeypatch.setattr(socket, "gethostname", lambda: "-höst name.of." + 80 * "x")
    assert is_model_name(replica_name(layout))
    assert replica_name(layout, "north") == "north"


@pytest.mark.parametrize("name", ["", "../up", "a b", ".hidden"])
def test_a_name_that_is_no_folder_is_refused(layout: Layout, name: str) -> None:
    with pytest.raises(ConfigError, match="--replica-name"):
        replica_name(layout, name)


def status(**changes: object) -> ReplicaStatus:
    return ReplicaStatus(name="here", pid=0, updated_at=0.0).model_copy(update=changes)


def test_is_written_at_every_change_and_as_a_sign_of_life(tmp_path: Path) -> None:
    folder = RolloutFolder(tmp_path)
    file = folder.status_file("here")
    statuses = StatusFile(folder, "here")
    statuses.tell(status(), 0.0)
    first = read_json(file, ReplicaStatus)
    assert first is not None
    assert first.pid == os.getpid()
    inode = file.stat().st_ino
    statuses.tell(status(memory_free_bytes=7), STATUS_INTERVAL_S / 2)
    assert file.stat().st_ino == inode
    statuses.tell(status(phase="ready"), STATUS_INTERVAL_S / 2)
    assert file.stat().st_ino != inode
    statuses.tell(status(phase="ready"), STATUS_INTERVAL_S * 1.6)
    last = read_json(file, ReplicaStatus)
    assert last is not None
    assert (last.phase, last.updated_at > first.updated_at) == ("ready", True)


def test_a_file_that_cannot_be_written_is_said_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RolloutFolder(tmp_path / "rollouts")
    (tmp_path / "rollouts").write_text("in the way", encoding="utf-8")
    statuses = StatusFile(folder, "here")
    for second in range(3):
        statuses.tell(status(), float(second))
    assert len(caplog.messages) == 1
    (tmp_path / "rollouts").unlink()
    statuses.tell(status(), 4.0)
    assert folder.status_file("here").exists()


def test_signs_of_life_go_on_while_nobody_tells_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "STATUS_INTERVAL_S", 0.02)
    folder = RolloutFolder(tmp_path)
    statuses = StatusFile(folder, "here")
    statuses.start()
    statuses.tell(status(phase="loading"), time.monotonic())
    first = folder.status_file("here").stat().st_ino
    wait_until(lambda: folder.status_file("here").stat().st_ino != first)
    last = read_json(folder.status_file("here"), ReplicaStatus)
    assert last is not None
    assert last.phase == "loading"
