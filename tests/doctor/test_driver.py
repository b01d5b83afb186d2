from __future__ import annotations

import pytest

from tests.doctor.tree import npu_machine, plain_machine, write
from voxrepo.doctor.driver import check_driver, check_nodes, driver_folder, find_nodes
from voxrepo.doctor.report import Finding


def nodes(machine) -> list[Finding]:
    return check_nodes(machine, find_nodes(machine))


def test_a_sound_machine_has_nothing_to_say(tmp_path):
    machine = npu_machine(tmp_path)
    assert [finding.status for finding in nodes(machine)] == ["ok"]
    (driver,) = check_driver(machine)
    assert (driver.status, driver.text) == ("ok", "Driver 24.1.rc2.")


def test_nodes_are_found_in_the_order_of_their_numbers(tmp_path):
    write(tmp_path, {f"/dev/davinci{number}": "" for number in (10, 2, 0)})
    write(tmp_path, {"/dev/davinci_manager": "", "/dev/vdavinci100": "", "/dev/davinci0x": ""})
    found = find_nodes(plain_machine(tmp_path))
    assert found.devices == ("davinci0", "davinci2", "davinci10")
    assert found.slices == ("vdavinci100",)


def test_without_an_npu_the_flags_of_a_container_are_named(tmp_path):
    (finding,) = nodes(plain_machine(tmp_path))
    assert finding.status == "problem" and "--device /dev/davinci_manager" in finding.advice


@pytest.mark.parametrize("name", ["davinci_manager", "devmm_svm", "hisi_hdc"])
def test_a_missing_control_node_is_named(tmp_path, name):
    (finding,) = nodes(npu_machine(tmp_path, without=[f"/dev/{name}"]))
    assert finding.status == "problem"
    assert f"/dev/{name} is missing" in finding.text and f"--device /dev/{name}" in finding.advice


def test_a_user_outside_the_group_is_told_its_name(tmp_path):
    machine = npu_machine(tmp_path, usable=lambda path: path.name != "davinci1")
    (finding,) = nodes(machine)
    assert "may not read and write /dev/davinci1 " in finding.text and "usermod -aG HwHiAiUser" in finding.advice


def test_a_user_inside_the_group_is_not_sent_there_again(tmp_path):
    machine = npu_machine(tmp_path, usable=lambda path: False, groups=frozenset({"HwHiAiUser"}))
    (finding,) = nodes(machine)
    assert "usermod" not in finding.advice and "ls -l" in finding.advice


def test_slices_of_chips_are_pointed_out(tmp_path):
    findings = nodes(npu_machine(tmp_path, files={"/dev/vdavinci100": ""}))
    assert [finding.status for finding in findings] == ["ok", "warning"]
    assert "--virtual_type=1" in findings[1].advice


def test_a_driver_that_is_not_mounted_is_a_problem(tmp_path):
    version = "/usr/local/Ascend/driver/version.info"
    machine = npu_machine(tmp_path, without=[version, "/usr/local/Ascend/driver/lib64/libascend_hal.so"])
    assert [finding.status for finding in check_driver(machine)] == ["warning", "problem"]


def test_a_driver_elsewhere_is_found_by_its_install_info(tmp_path):
    machine = npu_machine(
        tmp_path,
        files={
            "/etc/ascend_install.info": "UserName=HwHiAiUser\nDriver_Install_Path_Param=/opt/Ascend\n",
            "/opt/Ascend/driver/version.info": "Version=25.0.1\n",
            "/opt/Ascend/driver/lib64/a.so": "",
        },
    )
    assert driver_folder(machine) == "/opt/Ascend/driver"
    assert [finding.text for finding in check_driver(machine)] == ["Driver 25.0.1."]
