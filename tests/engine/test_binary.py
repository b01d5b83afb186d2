from __future__ import annotations

import importlib.metadata
import os
import platform
import sysconfig
from pathlib import Path

import pytest

from voxrepo.engine import binary
from voxrepo.engine.binary import EngineBinary, find_at, find_engine, find_in_wheel
from voxrepo_contract.errors import ConfigError


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel is for x86_64")
def test_finds_the_engine_of_the_installed_wheel():
    found = find_in_wheel()
    assert os.access(found.path, os.X_OK)
    assert found.source.startswith("nvidia-pytriton ")
    names = {file.name for file in found.python_backend}
    assert {"libtriton_python.so", "triton_python_backend_utils.py", "triton_python_backend_stub"} <= names
    assert all(file.is_file() for file in found.python_backend)
    assert all(folder.is_dir() for folder in found.library_dirs)


def no_wheel(name: str) -> importlib.metadata.Distribution:
    raise importlib.metadata.PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("machine", "advice"),
    [("x86_64", "pip install nvidia-pytriton"), ("aarch64", "no wheel for aarch64: give a tritonserver with --engine")],
)
def test_a_missing_wheel_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, machine: str, advice: str):
    monkeypatch.setattr(importlib.metadata, "distribution", no_wheel)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(ConfigError, match=advice):
        find_engine(None)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel is for x86_64")
def test_a_wheel_without_a_stub_for_this_python_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(binary, "_python_version", lambda: "3.99")
    with pytest.raises(ConfigError, match=r"no engine for Python 3\.99 .*triton_python_backend_stub is missing"):
        find_in_wheel()


def test_a_python_without_a_shared_library_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: str(tmp_path))
    with pytest.raises(ConfigError, match="use a Python built with --enable-shared"):
        binary._libpython_dir()


def place(folder: Path, stub: bool = True) -> Path:
    path = folder / "bin" / "tritonserver"
    backend = folder / "backends" / "python"
    path.parent.mkdir(parents=True)
    backend.mkdir(parents=True)
    path.write_text("", encoding="utf-8")
    (backend / "libtriton_python.so").write_text("", encoding="utf-8")
    if stub:
        (backend / "triton_python_backend_stub").write_text("", encoding="utf-8")
    return path


def test_takes_an_engine_from_a_path(tmp_path: Path):
    path = place(tmp_path)
    found = find_engine(path)
    assert isinstance(found, EngineBinary)
    assert found.path == path
    assert [file.name for file in found.python_backend] == ["libtriton_python.so", "triton_python_backend_stub"]
    assert found.library_dirs[0] == tmp_path / "lib"


def test_an_engine_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert find_at(Path("bin/tritonserver")).path == tmp_path / "bin" / "tritonserver"


def test_an_engine_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="--engine: no such file; give the path of a tritonserver"):
        find_at(tmp_path / "tritonserver")


def test_a_folder_is_not_an_engine(tmp_path: Path):
    with pytest.raises(ConfigError, match="--engine: no such file"):
        find_at(tmp_path)


def test_an_engine_without_its_python_backend_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="must come with Triton's Python backend"):
        find_at(place(tmp_path, stub=False))
