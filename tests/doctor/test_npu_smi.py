from __future__ import annotations

from tests.doctor import tree
from tests.doctor.tree import Programs, npu_machine
from voxrepo.doctor.machine import Ran
from voxrepo.doctor.npu_smi import Chip, Process, check_chips, parse_table, parse_values


def test_reads_the_table_of_a_910b_with_its_processes():
    chips = parse_table(tree.smi(health="Warning", busy=87, used=32768, processes=tree.SOMEBODY))
    assert chips == [
        Chip(0, 0, "910B3", "OK", 0, 3465, 65536),
        Chip(1, 0, "910B3", "Warning", 87, 32768, 65536, (Process(4321, "python3", 30000),)),
    ]


def test_reads_the_table_of_a_310p_whose_memory_is_on_the_board():
    assert parse_table(tree.SMI_310P) == [
        Chip(2, 0, "310P3", "OK", 0, 1853, 44280),
        Chip(2, 1, "310P3", "OK", 7, 1500, 43693),
    ]


def test_text_that_is_no_table_has_no_chips():
    assert parse_table("") == parse_table("| x |\n|||\n| 1 | 2\n") == []


def test_reads_pairs_with_any_spacing():
    assert parse_values("\tChip Name          : Ascend910\n\n   NPU Name : 9392\nno pair") == {
        "Chip Name": "Ascend910",
        "NPU Name": "9392",
    }


def test_idle_chips_are_fine_and_named_as_atc_takes_it(tmp_path):
    findings, chips, soc = check_chips(npu_machine(tmp_path))
    assert [finding.status for finding in findings] == ["ok", "ok"]
    assert len(chips) == 2 and soc == "Ascend910B3"
    assert "62071 of 65536 MB free" in findings[0].text


def test_the_name_of_an_a3_chip_is_put_together_from_its_board(tmp_path):
    run = Programs(Ran(0, tree.SMI_A3), board="Chip Name : Ascend910\nNPU Name : 9392\n")
    assert check_chips(npu_machine(tmp_path, run=run))[2] == "Ascend910_9392"
    assert run.asked[-1][-4:] == ["-i", "0", "-c", "0"]


def test_a_busy_chip_is_a_warning_with_the_process(tmp_path):
    run = Programs(Ran(0, tree.smi(busy=87, processes=tree.SOMEBODY)))
    findings, _, _ = check_chips(npu_machine(tmp_path, run=run))
    assert [finding.status for finding in findings] == ["ok", "warning"]
    assert "python3 (pid 4321, 30000 MB)" in findings[1].text and "87 % busy" in findings[1].text


def test_a_chip_that_is_nearly_full_is_a_warning(tmp_path):
    findings, _, _ = check_chips(npu_machine(tmp_path, run=Programs(Ran(0, tree.smi(used=65000)))))
    assert "has only 536 of 65536 MB free" in findings[1].text


def test_a_faulty_chip_is_a_problem_a_doubtful_one_a_warning(tmp_path):
    statuses = {
        health: check_chips(npu_machine(tmp_path, run=Programs(Ran(0, tree.smi(health=health)))))[0][1].status
        for health in ("Alarm", "Critical", "Warning", "UNKNOWN")
    }
    assert statuses == {"Alarm": "problem", "Critical": "problem", "Warning": "warning", "UNKNOWN": "warning"}


def test_without_npu_smi_only_a_warning_is_given(tmp_path):
    (finding,), chips, soc = check_chips(npu_machine(tmp_path, run=tree.no_program))
    assert finding.status == "warning" and (chips, soc) == ([], "")


def test_a_device_held_by_another_container_is_said_so(tmp_path):
    said = "dcmi model initialized failed, because the device is used. ret is -8020"
    (finding,), _, _ = check_chips(npu_machine(tmp_path, run=Programs(Ran(1, "", said))))
    assert finding.status == "problem" and "another container" in finding.text


def test_an_npu_smi_that_hangs_or_fails_is_a_problem(tmp_path):
    for ran in (Ran(None, ""), Ran(1, "", "dcmi init failed"), Ran(0, "nothing here")):
        (finding,), _, _ = check_chips(npu_machine(tmp_path, run=Programs(ran)))
        assert finding.status == "problem" and finding.advice
