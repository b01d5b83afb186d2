"""Runtime ``torch_npu`` on torch's CPU device, in a worker whose Python is any on this machine that has torch.

Debian's ``python3-torch`` is enough for TorchScript; exported programs need a later torch, which
``VOXREPO_TEST_TORCH_PYTHON`` may name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_backend.choice import WORKER_RUNTIMES
from om_backend.device.client import DeviceWorker
from om_backend.device.worker_graph import WorkerGraph

from voxrepo_contract.errors import ConfigError, Internal, InvalidArgument
from voxrepo_contract.stage import GraphSpec, GraphTensor

from .conftest import Lines, tiny_settings

SCRIPT = """
import sys, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.arange(6.0).reshape(2, 3))
            self.linear.bias.fill_(1.0)
    def forward(self, x, scale):
        return self.linear(x) * scale, x.sum(1)
class Bomb:
    def __reduce__(self):
        return (open, (sys.argv[2] + "/exploded", "w"))
folder, model = sys.argv[2], Model().eval()
if sys.argv[1] == "script":
    torch.jit.save(torch.jit.script(model), folder + "/model.pt")
elif sys.argv[1] == "pickle":
    torch.save({"bomb": Bomb()}, folder + "/model.pt")
elif sys.argv[1] == "old_pickle":
    torch.save({"bomb": Bomb()}, folder + "/model.pt", _use_new_zipfile_serialization=False)
elif sys.argv[1] in ("export", "mined"):
    rows = torch.export.Dim("rows", min=1, max=64)
    inputs = (torch.ones(2, 3), torch.ones(1))
    program = torch.export.export(model, inputs, dynamic_shapes=({0: rows}, None))
    torch.export.save(program, folder + "/model.pt2")
    if sys.argv[1] == "mined":
        import io, zipfile
        bomb = io.BytesIO()
        torch.save({"bomb": Bomb()}, bomb)
        with zipfile.ZipFile(folder + "/model.pt2") as source:
            members = {name: source.read(name) for name in source.namelist()}
        mined = [name for name, data in members.items() if data[:2] == b"PK"]
        with zipfile.ZipFile(folder + "/model.pt2", "w", zipfile.ZIP_STORED) as target:
            for name, data in members.items():
                target.writestr(name, bomb.getvalue() if name in mined else data)
        print(len(mined))
"""
TENSORS: dict[str, list[tuple[str, Any, list[Any]]]] = {
    "inputs": [("x", "FP32", ["rows", 3]), ("scale", "FP32", [1])],
    "outputs": [("y", "FP32", ["rows", 2]), ("sums", "FP32", ["rows"])],
}


@lru_cache
def python_with(test: str) -> str | None:
    """The first Python on this machine in which ``test`` holds."""
    for python in (os.environ.get("VOXREPO_TEST_TORCH_PYTHON"), sys.executable, "/usr/bin/python3"):
        if not python or not Path(python).exists():
            continue
        done = subprocess.run([python, "-s", "-c", test], capture_output=True, timeout=120, check=False)
        if done.returncode == 0:
            return python
    return None


def python_for_scripts() -> str:
    python = python_with("import torch, numpy")
    if python is None:
        pytest.skip("no Python with torch here; `apt-get install python3-torch` brings one (PyPI's takes gigabytes)")
    return python


def python_for_programs() -> str:
    python = python_with("import torch, numpy; torch.export.Dim")
    if python is None:
        pytest.skip("no Python with torch 2.1 or later here; name one in VOXREPO_TEST_TORCH_PYTHON")
    return python


def make(python: str, kind: str, folder: Path) -> str:
    # a file, since torch reads the source of what it compiles
    script = folder / "make.py"
    script.write_text(SCRIPT, "utf-8")
    done = subprocess.run(
        [python, "-s", str(script), kind, str(folder)], timeout=120, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def spec(file: str, **changes: Any) -> GraphSpec:
    tensors: dict[str, Any] = {
        side: [GraphTensor(name=name, dtype=dtype, dims=dims) for name, dtype, dims in changes.get(side, listed)]
        for side, listed in TENSORS.items()
    }
    return GraphSpec(file=file, sha256="0" * 64, **tensors)


@pytest.fixture
def start() -> Iterator[Callable[..., DeviceWorker]]:
    made: list[DeviceWorker] = []

    def start(python: str, device: str = "cpu") -> DeviceWorker:
        settings = tiny_settings(python=python, runtime=WORKER_RUNTIMES["torch_npu"], options={"device": device})
        made.append(DeviceWorker(settings, Lines()))
        return made[-1]

    yield start
    for worker in made:
        worker.close()


def expected(x: Any, scale: float) -> Any:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    return (x @ weight.T + 1) * np.float32(scale)


Start = Callable[..., DeviceWorker]


@pytest.mark.parametrize(("kind", "suffix"), [("script", ".pt"), ("export", ".pt2")])
def test_runs_a_model_for_any_number_of_rows(start: Start, tmp_path: Path, kind: str, suffix: str):
    python = python_for_scripts() if kind == "script" else python_for_programs()
    make(python, kind, tmp_path)
    graph = WorkerGraph(start(python), tmp_path / f"model{suffix}", spec(f"model{suffix}"))
    for rows in (1, 7, 64):
        x = np.random.default_rng(rows).random((rows, 3), np.float32)
        outputs = graph.run({"scale": np.array([2], np.float32), "x": x})
        assert np.allclose(outputs["y"], expected(x, 2), rtol=1e-5)
        assert np.allclose(outputs["sums"], x.sum(1), rtol=1e-5)


def test_a_shape_that_the_model_does_not_take_is_the_requests_fault(start: Start, tmp_path: Path):
    python = python_for_scripts()
    make(python, "script", tmp_path)
    worker = start(python)
    listed = [("x", "FP32", ["rows", "columns"]), ("scale", "FP32", [1])]
    graph = WorkerGraph(worker, tmp_path / "model.pt", spec("model.pt", inputs=listed))
    pid = worker.pid
    scale = np.ones(1, np.float32)
    with pytest.raises(InvalidArgument, match=r"model\.pt does not take these tensors: .*mat1"):
        graph.run({"x": np.ones((2, 5), np.float32), "scale": scale})
    assert (graph.run({"x": np.ones((2, 3), np.float32), "scale": scale})["y"] == expected(np.ones((2, 3)), 1)).all()
    assert worker.pid == pid


def test_fixed_dims_are_those_of_the_stage(start: Start, tmp_path: Path):
    python = python_for_scripts()
    make(python, "script", tmp_path)
    graph = WorkerGraph(start(python), tmp_path / "model.pt", spec("model.pt"))
    with pytest.raises(InvalidArgument, match="axis 1 must be 3"):
        graph.run({"x": np.ones((2, 5), np.float32), "scale": np.ones(1, np.float32)})


def test_outputs_other_than_listed_are_not_passed_on(start: Start, tmp_path: Path):
    python = python_for_scripts()
    make(python, "script", tmp_path)
    feeds = {"x": np.ones((1, 3), np.float32), "scale": np.ones(1, np.float32)}
    for outputs, says in (
        ([("y", "FP32", ["rows", 2])], r"returned 2 values; stage\.yaml lists 1"),
        ([("y", "INT64", ["rows", 2]), ("sums", "FP32", ["rows"])], "output y of .* came as float32"),
    ):
        worker = start(python)
        graph = WorkerGraph(worker, tmp_path / "model.pt", spec("model.pt", outputs=outputs))
        pid = worker.pid
        with pytest.raises(Internal, match=says):
            graph.run(feeds)
        assert worker.pid == pid, "loading it again would not help"


@pytest.mark.parametrize(
    ("kind", "says"),
    [("pickle", "holds a pickled model or its weights, which are not loaded"), ("old_pickle", "it is a Python pickle")],
)
def test_a_pickle_is_refused_unread(start: Start, tmp_path: Path, kind: str, says: str):
    python = python_for_scripts()
    make(python, kind, tmp_path)
    with pytest.raises(ConfigError, match=rf"model\.pt: .*{says}"):
        WorkerGraph(start(python), tmp_path / "model.pt", spec("model.pt"))
    assert not (tmp_path / "exploded").exists()


def test_a_mined_program_does_not_go_off(start: Start, tmp_path: Path):
    python = python_for_programs()
    if int(make(python, "mined", tmp_path)) == 0:
        pytest.skip("this torch puts no pickles into exported programs")
    try:
        WorkerGraph(start(python), tmp_path / "model.pt2", spec("model.pt2"))
    except ConfigError as error:
        assert "cannot load it" in error.message
    assert not (tmp_path / "exploded").exists()


def test_a_torch_without_programs_says_so(start: Start, tmp_path: Path):
    python = python_with("import torch; assert not hasattr(torch, 'export')")
    if python is None:
        pytest.skip("no Python with torch 1.x here (Debian 12's python3-torch is one)")
    (tmp_path / "model.pt2").write_bytes(make_zip())
    with pytest.raises(ConfigError, match=r"PyTorch 1\.\S+ has no exported programs; take 2\.1 or later"):
        WorkerGraph(start(python), tmp_path / "model.pt2", spec("model.pt2"))


def make_zip() -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/archive_format", "pt2")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("model.pt", b"", "not a PyTorch archive"),
        ("model.pt", b"PK\x03\x04damaged", "it is damaged"),
        ("model.pt", make_zip(), r"it is not TorchScript; exported programs have the suffix \.pt2"),
        ("model.pt2", b"version https://git-lfs", "not a PyTorch archive"),
    ],
)
def test_what_is_no_model_is_refused(start: Start, tmp_path: Path, name: str, data: bytes, says: str):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        WorkerGraph(start(python_for_scripts()), tmp_path / name, spec(name))


def test_an_npu_without_torch_npu_is_refused(start: Start, tmp_path: Path):
    (tmp_path / "model.pt").touch()
    with pytest.raises(ConfigError, match=r"runtime torch_npu needs torch_npu in the worker's Python"):
        WorkerGraph(start(python_for_scripts(), device="npu"), tmp_path / "model.pt", spec("model.pt"))


def test_a_python_without_torch_is_refused(start: Start, tmp_path: Path):
    if python_with("import torch") == sys.executable:
        pytest.skip("the Python of the tests has torch")
    (tmp_path / "model.pt").touch()
    with pytest.raises(ConfigError, match=r"needs torch in the worker's Python .*VOXREPO_WORKER_PYTHON"):
        WorkerGraph(start(sys.executable), tmp_path / "model.pt", spec("model.pt"))
