from __future__ import annotations

import importlib.metadata

import pytest

from tests.doctor.tree import plain_machine
from voxrepo.doctor import host
from voxrepo.doctor.machine import Machine, free_bytes_at, own_groups, run_program
from voxrepo.repository.layout import Layout


@pytest.mark.parametrize(
    ("version", "status"), [((3, 9), "problem"), ((3, 10), "ok"), ((3, 12), "ok"), ((3, 13), "problem")]
)
def test_pythons_that_are_not_tested_are_a_problem(version, status):
    assert host.check_python(version)[0].status == status


def test_an_engine_that_is_not_there_is_a_problem_with_its_path(tmp_path):
    (finding,) = host.check_engine(tmp_path / "tritonserver")
    assert finding.status == "problem" and str(tmp_path / "tritonserver") in finding.text


def test_onnxruntime_is_shown_with_its_providers():
    (finding,) = host.check_onnxruntime()
    assert finding.status == "ok" and "CPUExecutionProvider" in finding.text


def test_the_phonemizer_is_missed_only_where_a_voice_needs_it(monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    (needed,) = host.check_espeak(["en-joe"])
    assert needed.status == "problem" and "en-joe" in needed.text and "voxrepo[espeak]" in needed.advice
    assert host.check_espeak([])[0].status == "ok"


@pytest.mark.parametrize(
    ("free", "statuses"),
    [
        (8 << 30, ["ok", "ok"]),
        (600 << 20, ["ok", "warning"]),
        (200 << 20, ["warning", "warning"]),
        (64 << 20, ["problem", "warning"]),
        (1 << 20, ["problem", "problem"]),
        (None, ["warning", "warning"]),
    ],
)
def test_little_shared_memory_and_disk_are_pointed_out(tmp_path, free, statuses):
    machine = plain_machine(tmp_path, free_bytes=lambda path: free)
    findings = host.check_space(machine, Layout.of(tmp_path))
    assert [finding.status for finding in findings] == statuses


def test_the_space_of_a_folder_that_is_not_there_yet_is_that_of_its_parent(tmp_path):
    assert free_bytes_at(tmp_path / "not" / "yet") == pytest.approx(free_bytes_at(tmp_path), rel=0.1)


def test_programs_are_run_with_a_limit():
    ran = run_program(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], {}, 10)
    assert ran is not None and (ran.exit_code, ran.stdout, ran.stderr) == (3, "out\n", "err\n")
    slow = run_program(["/bin/sleep", "5"], {}, 0.2)
    assert slow is not None and slow.exit_code is None
    assert run_program(["/no/such/program"], {}, 1) is None


def test_a_real_machine_knows_its_groups():
    assert Machine().groups == own_groups()
