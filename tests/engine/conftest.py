from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.layout import Layout


@pytest.fixture
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short, plain, private runtime directory; pytest's own paths are longer than a socket's may be."""
    folder = Path(tempfile.mkdtemp(prefix="vx-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path / "root")
    layout.model_repository.mkdir(parents=True)
    layout.ensembles.mkdir()
    return layout


@pytest.fixture
def workspace(runtime_dir: Path, layout: Layout) -> Workspace:
    return Workspace.of(layout)


@pytest.fixture
def binary(tmp_path: Path) -> EngineBinary:
    """Files of an engine, none of which can run."""
    backend = tmp_path / "engine" / "backends" / "python"
    backend.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py", "triton_python_backend_stub"):
        (backend / name).write_text(name, encoding="utf-8")
    return EngineBinary(
        path=tmp_path / "engine" / "bin" / "tritonserver",
        python_backend=tuple(sorted(backend.iterdir())),
        library_dirs=(tmp_path / "libs", tmp_path / "python"),
        source="test",
    )
