from __future__ import annotations

import pytest

from tests.doctor.tree import HOME, npu_machine, plain_machine
from voxrepo.doctor.cann import check_cann, find_cann
from voxrepo.doctor.report import Finding
from voxrepo.doctor.visible import check_visible


def findings(machine) -> list[Finding]:
    return check_cann(machine, find_cann(machine))


def test_a_sound_installation_is_shown_with_its_versions(tmp_path):
    (finding,) = findings(npu_machine(tmp_path))
    assert finding.status == "ok"
    assert finding.text == f"CANN 8.0.RC3, operator package 7.6.0.1.220 in {HOME}."


@pytest.mark.parametrize(
    ("name", "content", "version"),
    [
        ("version.cfg", "# v\nruntime_running_version=[7.3.0.1.231:8.0.RC3]\n", "8.0.RC3"),
        ("version.cfg", "version=8.5.0\n", "8.5.0"),
        ("aarch64-linux/ascend_nnrt_install.info", "version=8.2.RC1\n", "8.2.RC1"),
        ("other", "", ""),
    ],
)
def test_the_version_is_found_where_each_release_keeps_it(tmp_path, name, content, version):
    info = f"{HOME}/aarch64-linux/ascend_toolkit_install.info"
    found = find_cann(npu_machine(tmp_path, without=[info], files={f"{HOME}/{name}": content}))
    assert found is not None and found.version == version


def test_an_environment_that_is_not_set_is_a_problem_with_the_command(tmp_path):
    machine = npu_machine(tmp_path, environment={"ASCEND_HOME_PATH": ""})
    finding = findings(machine)[0]
    assert finding.status == "problem"
    assert finding.advice == "Before `voxrepo serve`, run: source /usr/local/Ascend/ascend-toolkit/set_env.sh"


def test_the_older_name_of_the_variable_counts_too(tmp_path):
    machine = npu_machine(tmp_path, environment={"ASCEND_HOME_PATH": "", "ASCEND_TOOLKIT_HOME": HOME})
    assert [finding.status for finding in findings(machine)] == ["ok"]


def test_a_variable_that_leads_nowhere_is_a_problem(tmp_path):
    finding = findings(npu_machine(tmp_path, environment={"ASCEND_HOME_PATH": "/gone"}))[0]
    assert finding.status == "problem" and "/gone" in finding.text


def test_without_cann_it_is_a_problem(tmp_path):
    assert findings(plain_machine(tmp_path))[0].text == "CANN is not installed."


@pytest.mark.parametrize("path", ["", "/gone/opp"])
def test_operators_that_are_not_found_are_a_problem(tmp_path, path):
    found = findings(npu_machine(tmp_path, environment={"ASCEND_OPP_PATH": path}))
    assert [finding.status for finding in found] == ["ok", "problem"]
    assert "148049" in found[1].text


@pytest.mark.parametrize("folder", [f"{HOME}/runtime/lib64/stub", f"{HOME}/devlib", f"{HOME}/devlib/linux/aarch64"])
def test_libraries_made_for_building_are_found_before_they_fail(tmp_path, folder):
    found = findings(npu_machine(tmp_path, environment={"LD_LIBRARY_PATH": f"{HOME}/lib64:{folder}"}))
    assert found[-1].status == "problem" and "100039" in found[-1].text and folder in found[-1].text


def test_a_library_path_without_ascendcl_is_a_warning(tmp_path):
    found = findings(npu_machine(tmp_path, environment={"LD_LIBRARY_PATH": "/usr/lib"}))
    assert found[-1].status == "warning" and "libascendcl.so" in found[-1].text


@pytest.mark.parametrize(
    ("value", "status", "said"),
    [
        ("0,1", "ok", "device 0 of this server is device 0"),
        ("1", "ok", "device 0 of this server is device 1"),
        ("", "problem", "hides every device"),
        ("NPU0", "problem", "hides every device"),
        ("0,0", "problem", "names a device twice"),
        ("0,7", "problem", "there are 2 device nodes"),
    ],
)
def test_visible_devices_are_compared_with_those_that_are_there(tmp_path, value, status, said):
    (finding,) = check_visible(plain_machine(tmp_path, environment={"ASCEND_RT_VISIBLE_DEVICES": value}), 2)
    assert finding.status == status and said in finding.text


def test_devices_chosen_by_the_container_are_only_mentioned(tmp_path):
    (finding,) = check_visible(plain_machine(tmp_path, environment={"ASCEND_VISIBLE_DEVICES": "5"}), 1)
    assert finding.status == "ok" and "counted from 0" in finding.text
    assert check_visible(plain_machine(tmp_path), 1) == []
