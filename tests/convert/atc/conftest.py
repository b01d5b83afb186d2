from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")


@pytest.fixture
def atc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, first on PATH as a program of its own."""
    from .helpers import place_atc

    program = place_atc(tmp_path / "cann" / "bin")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return program


@pytest.fixture
def no_atc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the compiler."""
    for folder in os.environ["PATH"].split(os.pathsep):
        if (Path(folder) / "atc").exists():
            monkeypatch.setenv("PATH", "/usr/bin:/bin")
