from __future__ import annotations

import os
from pathlib import Path

from voxrepo_contract.environment import STUBS_DIR
from voxrepo_contract.stub_identity import identify, version_of


def test_a_stub_says_which_version_it_runs(tmp_path: Path) -> None:
    identify("one.vocoder", "12", {STUBS_DIR: str(tmp_path)})
    assert version_of(tmp_path, os.getpid(), "one.vocoder") == 12
    assert version_of(tmp_path, os.getpid(), "one.acoustic") is None, "another process had this number"
    assert version_of(tmp_path, os.getpid() + 1, "one.vocoder") is None
    assert [file.name for file in tmp_path.iterdir()] == [f"{os.getpid()}.json"]


def test_nobody_is_told_where_nobody_asks_and_a_missing_folder_is_no_fault(tmp_path: Path) -> None:
    identify("one.vocoder", "1", {})
    identify("one.vocoder", "1", {STUBS_DIR: str(tmp_path / "absent")})
    assert list(tmp_path.iterdir()) == []


def test_half_a_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "7.json").write_text('{"model": "one.voc', encoding="ascii")
    assert version_of(tmp_path, 7, "one.vocoder") is None
