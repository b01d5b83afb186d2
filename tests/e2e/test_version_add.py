"""Adding versions of a real voice with the real engine: a good one is taken, others are refused with reasons."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.harness import VOICE, clone_root, edit_yaml, voxrepo
from voxrepo.engine.sweep import leftover_processes
from voxrepo.engine.workspace import Workspace
from voxrepo.repository.layout import Layout
from voxrepo_contract.stage import read_stage, verify_files

pytestmark = pytest.mark.e2e

TEXTS = "The train leaves at nine.\nYes, please.\n"


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    return clone_root(voice_root, voice_root.parent / f"versions-{tmp_path.name}")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text(TEXTS, encoding="utf-8")
    return file


def vocoder(root: Path, version: int = 1) -> Path:
    return root / "model_repository" / f"{VOICE}.vocoder" / str(version)


def scaled(root: Path, file: Path, factor: float) -> Path:
    """The voice's generator with its waveform multiplied."""
    onnx = pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")
    model = onnx.load(str(vocoder(root) / "generator.onnx"))
    audio = model.graph.output[0].name
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["unscaled" if name == audio else name for name in names]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(factor), "factor"))
    model.graph.node.append(onnx.helper.make_node("Mul", ["unscaled", "factor"], [audio]))
    onnx.save(model, str(file))
    return file


def everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")} - {".voxrepo"}


@pytest.mark.soak
def test_a_good_version_is_taken_with_its_scores_and_a_silent_one_is_not(root: Path, texts: Path, tmp_path: Path):
    arguments = ("--root", str(root), "--texts", str(texts), "--json")
    before = everything(root)
    good = scaled(root, tmp_path / "good.onnx", 0.5)
    added = voxrepo("version", "add", f"{VOICE}.vocoder", str(good), *arguments, "--note", "half as loud", timeout=400)
    assert added.returncode == 0, added.stderr
    said = json.loads(added.stdout)
    assert (said["version"], said["current"]) == (2, 1)
    spec = read_stage(vocoder(root, 2))
    verify_files(vocoder(root, 2), spec)
    smoke = spec.quality["smoke"]
    assert smoke["texts"] == 2
    assert smoke["compared_with"] == 1
    assert smoke["metrics"]["level_difference_db"] == pytest.approx(-6.02, abs=0.3)
    assert smoke["metrics"]["duration_ratio"] == pytest.approx(1.0)
    assert smoke["metrics"]["mel_cepstral_distance_db"] < 0.5
    assert any("quieter" in warning for warning in smoke["warnings"])
    assert spec.provenance["added"]["note"] == "half as loud"
    assert everything(root) - before == {
        f"model_repository/{VOICE}.vocoder/2{name}" for name in ("", "/stage.yaml", "/generator.onnx")
    }

    before = everything(root)
    silent = scaled(root, tmp_path / "silent.onnx", 0.0)
    refused = voxrepo("version", "add", f"{VOICE}.vocoder", str(silent), *arguments, timeout=400)
    assert refused.returncode == 1
    assert "vocoder version 3 failed at 'The train leaves at nine.'" in refused.stderr
    assert "silence (peak 0.00000 of full scale)" in refused.stderr
    assert everything(root) == before
    assert leftover_processes(Workspace.of(Layout.of(root / ".voxrepo" / "trial"))) == []


def test_a_wrong_interface_is_refused_before_an_engine_starts(root: Path, texts: Path, tmp_path: Path):
    folder = tmp_path / "other"
    folder.mkdir()
    for file in vocoder(root).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    edit_yaml(folder / "stage.yaml", interface__sample_rate_hz=48_000)
    before = everything(root)
    refused = voxrepo("version", "add", f"{VOICE}.vocoder", str(folder), "--root", str(root), "--texts", str(texts))
    assert refused.returncode == 1
    assert "interface.sample_rate_hz: is 48000, but 22050 in version 1" in refused.stderr
    assert everything(root) == before


def test_a_kill_during_the_trial_leaves_no_engine_and_no_version(root: Path, texts: Path, tmp_path: Path):
    before = everything(root)
    good = scaled(root, tmp_path / "good.onnx", 0.5)
    workspace = Workspace.of(Layout.of(root / ".voxrepo" / "trial"))
    command = [sys.executable, "-m", "voxrepo", "version", "add", f"{VOICE}.vocoder", str(good), "--root", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while not leftover_processes(workspace) and time.monotonic() < end:
            time.sleep(0.2)
        assert leftover_processes(workspace), "the trial's engine has not started"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(10)
    _, alive = psutil.wait_procs(leftover_processes(workspace), timeout=20)
    assert not alive
    assert not vocoder(root, 2).exists()
    visible = {
        name for name in everything(root) - before if not name.startswith((".voxrepo", "model_repository/.stag"))
    }
    assert visible == set()
    again = voxrepo("version", "add", f"{VOICE}.vocoder", str(good), "--root", str(root), "--no-smoke")
    assert again.returncode == 0, again.stderr
    assert not workspace.path.exists()
    assert not [name for name in everything(root) if ".staging-" in name or "trial" in name]
