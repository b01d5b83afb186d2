"""Adding versions of a real voice with the real engine: a good one is taken, others are refused with reasons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import speak
from tests.e2e.emulated import SOC, EmulatedNpu, emulated_server
from tests.harness import VOICE, clone_root, edit_yaml, running_server, voxrepo
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


def compiled_elsewhere(root: Path, tmp_path: Path, soc: str) -> Path:
    """The vocoder's parcel, compiled by the stand-in for ``atc`` on "another machine"; the folder to bring back."""
    pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")
    from tests.convert.atc.helpers import place_atc

    target = ("--target", "ascend", "--soc", soc, "--gears", "batch=1,2;frames=72,160")
    left = voxrepo("convert", f"{VOICE}.vocoder", *target, "--root", str(root), timeout=400)
    assert left.returncode == 0, left.stderr
    parcel = tmp_path / "parcel"
    (root / "convert" / f"{VOICE}.vocoder@1-{soc}-fp32").rename(parcel)
    assert f"on the server with the NPU, add its folder om: voxrepo version add {VOICE}.vocoder om" in left.stderr
    note = (parcel / "README.md").read_text(encoding="utf-8")
    assert f"voxrepo version add {VOICE}.vocoder om --root ROOT" in note
    machine = {**os.environ, "PATH": f"{place_atc(tmp_path / 'cann').parent}{os.pathsep}{os.environ['PATH']}"}
    for script in ("convert.sh", "finish.sh"):
        subprocess.run(["bash", str(parcel / script)], env=machine, check=True, capture_output=True, timeout=300)
    return parcel / "om"


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_what_another_machine_compiled_is_tried_on_its_device_and_served(root: Path, texts: Path, tmp_path: Path):
    made = compiled_elsewhere(root, tmp_path, SOC)
    before = everything(root)
    add = ("version", "add", f"{VOICE}.vocoder", str(made), "--root", str(root), "--texts", str(texts))
    refused = voxrepo(*add)
    assert refused.returncode == 1
    assert "is an emulated OM" in refused.stderr and "--device emulator" in refused.stderr
    assert everything(root) == before
    added = voxrepo(*add, "--device", "emulator", timeout=600)
    assert added.returncode == 0, added.stderr
    assert "ran in the emulator" in added.stderr
    smoke = read_stage(vocoder(root, 2)).quality["smoke"]
    assert smoke["metrics"]["mel_cepstral_distance_db"] < 0.5

    with running_server(root) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        expected = speak(client, "The train leaves at nine.")
    edit_yaml(root / "ensembles" / VOICE / "voice.yaml", stages__vocoder__version=2)
    npu = EmulatedNpu(tmp_path / "npu")
    npu.folder.mkdir()
    npu.write_settings()
    with emulated_server(root, npu) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        said = speak(client, "The train leaves at nine.")
    assert len(said) == len(expected)
    assert np.abs(said.astype(np.int32) - expected).max() <= 1e-3 * 32768
    assert npu.of_kind("violation") == [] and npu.of_kind("leak") == []
