"""A broken model is named and left out; the server and the other voices stay up."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.calls import generate
from tests.harness import VOICE, clone_root, edit_yaml, running_server, voxrepo

pytestmark = pytest.mark.e2e

OTHER = "broken"


def add_second_voice(root: Path) -> Path:
    """A copy of the voice under another name; returns the folder of its stages' versions."""
    shutil.copytree(root / "ensembles" / VOICE, root / "ensembles" / OTHER)
    edit_yaml(root / "ensembles" / OTHER / "voice.yaml", voice=OTHER)
    for stage in ("text_frontend", "acoustic", "vocoder"):
        shutil.copytree(root / "model_repository" / f"{VOICE}.{stage}", root / "model_repository" / f"{OTHER}.{stage}")
    return root / "model_repository"


def corrupt_graph(root: Path) -> str:
    graph = root / "model_repository" / f"{OTHER}.vocoder" / "1" / "generator.onnx"
    data = bytearray(graph.read_bytes())
    data[len(data) // 2] ^= 0xFF
    graph.write_bytes(data)
    return "generator.onnx"


def missing_graph(root: Path) -> str:
    (root / "model_repository" / f"{OTHER}.acoustic" / "1" / "decoder.onnx").unlink()
    return "decoder.onnx"


def wrong_hash(root: Path) -> str:
    stage = root / "model_repository" / f"{OTHER}.acoustic" / "1" / "stage.yaml"
    edit_yaml(stage, graphs__encoder__sha256="0" * 64)
    return "0" * 64


def bad_yaml(root: Path) -> str:
    file = root / "ensembles" / OTHER / "voice.yaml"
    text = file.read_text().replace("sample_rate_hz:", "sample_rate:")
    file.write_text(text)
    line = text[: text.index("sample_rate:")].count("\n") + 1
    return f"voice.yaml:{line}: "


def not_a_graph_behind_a_right_hash(root: Path) -> str:
    from voxrepo_contract.stage import sha256_of

    folder = root / "model_repository" / f"{OTHER}.vocoder" / "1"
    (folder / "generator.onnx").write_bytes(b"this is no graph")
    edit_yaml(folder / "stage.yaml", graphs__generator__sha256=sha256_of(folder / "generator.onnx"))
    return "cannot load this graph"


def npu_graph_without_an_npu(root: Path) -> str:
    edit_yaml(root / "model_repository" / f"{OTHER}.vocoder" / "1" / "stage.yaml", graphs__generator__device="npu")
    return "NPU"


@pytest.mark.parametrize(
    "break_it",
    [
        corrupt_graph,
        bad_yaml,
        pytest.param(npu_graph_without_an_npu, marks=pytest.mark.soak),
        # read before the engine starts, in the same place as the first; the unit tests have them all
        *(pytest.param(case, marks=pytest.mark.soak) for case in (missing_graph, wrong_hash)),
        pytest.param(not_a_graph_behind_a_right_hash, marks=pytest.mark.soak),
    ],
)
def test_status_says_why_and_the_good_voice_serves(
    voice_root: Path, tmp_path: Path, break_it: Callable[[Path], str]
) -> None:
    root = clone_root(voice_root, tmp_path / "root")
    add_second_voice(root)
    reason = break_it(root)
    with running_server(root, phases=("degraded",)) as server:
        status, _ = generate(server, {"text": "I still speak."})
        assert status == 200
        status, body = generate(server, {"text": "I do not."}, voice=OTHER)
        assert status == 503, body
        shown = voxrepo("status", "--root", str(root), "--json")
        assert shown.returncode == 3
        models = {model["name"]: model for model in json.loads(shown.stdout)["models"]}
        assert models[VOICE]["state"] == "ready"
        assert models[OTHER]["state"] == "failed"
        assert reason in models[OTHER]["reason"]
