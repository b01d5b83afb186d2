from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.doctor.tree import Programs, answers, no_program, npu_machine, plain_machine, write
from voxrepo.doctor.libraries import AclDevice, check_acl, check_other_runtimes, probe
from voxrepo.doctor.machine import Ran, run_program


def statuses(tmp_path, **changes) -> list[tuple[str, str]]:
    findings, _ = check_acl(npu_machine(tmp_path, run=Programs(probe=answers(**changes))))
    return [(finding.check, finding.status) for finding in findings]


def test_an_ascendcl_that_opens_its_device_is_fine(tmp_path):
    findings, probed = check_acl(npu_machine(tmp_path))
    assert [finding.status for finding in findings] == ["ok"]
    assert "opens Ascend910B3; device 0: 60.0 GiB of 64.0 GiB free" in findings[0].text
    assert probed.soc == "Ascend910B3" and probed.devices == (AclDevice(0, 60 << 30, 64 << 30),)


def test_an_ascendcl_that_somebody_else_initialised_is_fine(tmp_path):
    assert statuses(tmp_path, init=100002) == [("AscendCL", "ok")]


@pytest.mark.parametrize(
    ("code", "advice"), [(507033, "another program holds it"), (207006, "HwHiAiUser"), (999999, "npu-smi info")]
)
def test_a_device_that_does_not_open_is_told_with_its_code(tmp_path, code, advice):
    run = Programs(probe=answers(devices=[{"device": 0, "set_device": code}]))
    (finding,), probed = check_acl(npu_machine(tmp_path, run=run))
    assert finding.status == "problem" and str(code) in finding.text and advice in finding.advice
    assert probed.devices == ()


def test_an_ascendcl_made_for_building_is_recognised(tmp_path):
    run = Programs(probe=answers(init=100039, get_device_count=100039, devices=[]))
    findings, _ = check_acl(npu_machine(tmp_path, run=run))
    assert all("devlib" in finding.advice for finding in findings)


def test_an_import_that_fails_is_told_with_its_reason(tmp_path):
    run = Programs(probe={"python": "3.11", "import_error": "ImportError: libascendcl.so: cannot open"})
    (finding,), _ = check_acl(npu_machine(tmp_path, run=run))
    assert "libascendcl.so: cannot open" in finding.text and "set_env.sh" in finding.advice


def test_the_emulator_in_place_of_ascendcl_is_a_problem(tmp_path):
    run = Programs(probe=answers(emulator=True, file="/src/emulator/acl/__init__.py"))
    (finding,), _ = check_acl(npu_machine(tmp_path, run=run))
    assert finding.status == "problem" and "/src/emulator/acl" in finding.text and "PYTHONPATH" in finding.advice


def test_a_worker_without_numpy_is_a_problem(tmp_path):
    assert ("AscendCL", "problem") in statuses(tmp_path, numpy=False)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (no_program, "cannot be run"),
        (Programs(probe=Ran(None, "")), "did not finish"),
        (Programs(probe=Ran(-11, "", "Segmentation fault")), "exit status -11: Segmentation fault"),
        (Programs(probe=Ran(0, "[1]")), "answered [1]"),
        (Programs(probe=Ran(0, "")), "it said nothing"),
    ],
)
def test_a_python_that_does_not_answer_is_a_problem(tmp_path, run, said):
    (finding,), _ = check_acl(npu_machine(tmp_path, run=run))
    assert finding.status == "problem" and said in finding.text


def test_the_python_of_the_worker_is_the_one_that_is_asked(tmp_path):
    run = Programs()
    check_acl(npu_machine(tmp_path, run=run, environment={"VOXREPO_WORKER_PYTHON": "/opt/cann/python3"}))
    assert run.asked[0][0] == "/opt/cann/python3"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({}, []),
        ({"ais_bench": True, "ais_bench_interface": True, "aclruntime": True}, [("ais_bench", "ok")]),
        ({"ais_bench": True}, [("ais_bench", "warning")]),
        ({"ais_bench": True, "ais_bench_interface": True}, [("ais_bench", "warning")]),
        ({"torch": True, "torch_npu": True}, [("torch_npu", "ok")]),
        ({"torch": True}, [("torch_npu", "ok")]),
    ],
)
def test_other_runtimes_are_told_apart_from_packages_of_the_same_name(answer, expected):
    assert [(finding.check, finding.status) for finding in check_other_runtimes(answer)] == expected


ACL = """
print("a library that chatters")
class rt:
    get_device_count = staticmethod(lambda: (2, 0))
    set_device = staticmethod(lambda number: 0 if number == 0 else 507033)
    get_mem_info = staticmethod(lambda kind: (100, 200, 0))
    reset_device = staticmethod(lambda number: 0)
init = lambda: 0
finalize = lambda: 0
get_soc_name = lambda: "Ascend310P3"
"""


def real(tmp_path: Path, acl: str, other: dict[str, str] | None = None):
    """A machine whose Python is this one, with a package ``acl``."""
    write(tmp_path, {"/python/acl.py": acl, **(other or {})})
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "python")}
    return plain_machine(tmp_path, environment=environment, run=run_program, python=sys.executable)


def test_the_probe_opens_each_device_once(tmp_path):
    findings, probed = check_acl(real(tmp_path, ACL))
    assert probed.soc == "Ascend310P3" and probed.devices == (AclDevice(0, 100, 200),)
    assert any("Device 1 cannot be opened (507033)" in finding.text for finding in findings)


def test_the_probe_tells_the_emulator_without_using_it(tmp_path):
    answer = probe(real(tmp_path, "EMULATOR = True\ndef init(): raise SystemExit\n"))
    assert isinstance(answer, dict) and answer["emulator"] is True and "init" not in answer


def test_the_probe_survives_a_module_that_breaks_while_imported(tmp_path):
    answer = probe(real(tmp_path, "raise OSError('libascendcl.so: cannot open shared object file')"))
    assert isinstance(answer, dict) and answer["import_error"].startswith("OSError: libascendcl.so")


def test_the_probe_finds_the_other_product_named_ais_bench(tmp_path):
    answer = probe(real(tmp_path, ACL, {"/python/ais_bench/__init__.py": ""}), import_only=True)
    assert isinstance(answer, dict)
    assert (answer["ais_bench"], answer["ais_bench_interface"], answer["aclruntime"]) == (True, False, False)
