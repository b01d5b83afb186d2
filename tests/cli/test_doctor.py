from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.doctor.tree import Programs, npu_machine, plain_machine
from tests.repository.tiny import make_voice
from voxrepo.cli import doctor
from voxrepo.cli.main import app
from voxrepo.doctor.machine import Machine
from voxrepo.repository.layout import Layout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_voice(Layout.of(tmp_path / "repository"), "tiny")
    return tmp_path / "repository"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = plain_machine(tmp_path / "machine")
    monkeypatch.setattr(doctor, "Machine", lambda: made)
    return made


def run(root: Path, *arguments: str) -> Result:
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner().invoke(app, ["doctor", "--root", str(root), *arguments], env=environment)


def test_a_machine_without_an_npu_leaves_with_success(machine, root):
    result = run(root)
    assert result.exit_code == 0, result.output
    assert "There is no NPU in this machine; graphs run on the CPU." in result.output
    assert "runs on  CPU              tiny.acoustic version 1: encoder" in result.output
    assert "0 problems" in result.output


def test_asking_for_an_npu_that_is_not_there_leaves_with_failure_and_advice(machine, root):
    result = run(root, "--device", "npu")
    assert result.exit_code == 1
    assert "problem  device nodes" in result.output and "--device /dev/davinci_manager" in result.output


def test_a_sound_machine_with_npus_leaves_with_success(tmp_path, root, monkeypatch):
    made = npu_machine(tmp_path / "machine", run=Programs())
    monkeypatch.setattr(doctor, "Machine", lambda: made)
    result = run(root, "--device", "npu")
    assert result.exit_code == 0, result.output
    for said in ("Driver 24.1.rc2", "CANN 8.0.RC3", "Ascend910B3", "NPU 0 chip 0 (910B3) is healthy and idle"):
        assert said in result.output


def test_the_report_is_given_as_json(machine, root):
    found = json.loads(run(root, "--json").stdout)
    assert (found["problems"], found["device"]) == (0, "cpu")
    assert {finding["check"] for finding in found["findings"]} >= {"python", "engine", "onnxruntime", "repository"}
    assert {graph["place"] for graph in found["graphs"]} == {"cpu"}


def test_an_unknown_device_is_wrong_usage(machine, root):
    assert run(root, "--device", "tpu").exit_code == 2
