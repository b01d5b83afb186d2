from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.contract.om import builder
from tests.doctor.tree import Programs, answers, npu_machine, plain_machine, write
from tests.repository.tiny import make_voice
from voxrepo.doctor import emulator
from voxrepo.doctor.examine import examine
from voxrepo.doctor.machine import run_program
from voxrepo.doctor.report import Finding, Report
from voxrepo.repository.layout import Layout
from voxrepo_contract import emulated_om
from voxrepo_contract import environment as variables

BATCHED = builder.inout([builder.Tensor("x", [1, 80])], [builder.Tensor("y:0", [1, 4])])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout.of(tmp_path / "repository")
    made.model_repository.mkdir(parents=True)
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "machine"
    folder.mkdir()
    return folder


def add_om(layout: Layout, name: str = "classifier", **values) -> Path:
    folder = layout.model_repository / name / "1"
    folder.mkdir(parents=True)
    model = builder.Om([[(0, builder.definition(values=builder.decoder_values(**values))), (8, BATCHED)]])
    (folder / "model.om").write_bytes(model.write())
    return folder / "model.om"


def add_emulated(layout: Layout) -> None:
    folder = layout.model_repository / "emulated" / "1"
    folder.mkdir(parents=True)
    header = emulated_om.OmHeader(
        name="m",
        soc="Ascend910B3",
        kind="static",
        inputs=(emulated_om.OmTensor("x", "FP32", (1, 4)),),
        outputs=(emulated_om.OmTensor("y", "FP32", (1, 4)),),
    )
    emulated_om.write(folder / "model.om", header, b"")


def of(report: Report, check: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.check == check]


def test_a_machine_without_an_npu_is_fine_with_a_sound_voice(root, layout):
    make_voice(layout, "tiny")
    report = examine(plain_machine(root), layout)
    assert report.device == "cpu"
    assert [finding for finding in report.findings if finding.status == "problem"] == []
    assert {(item.model, item.graph, item.place) for item in report.graphs} >= {
        ("tiny.acoustic", "encoder", "cpu"),
        ("tiny.vocoder", "generator", "cpu"),
    }
    assert of(report, "npu")[0].text.startswith("There is no NPU")


def test_a_machine_without_an_npu_is_a_problem_when_one_is_asked_for(root, layout):
    report = examine(plain_machine(root), layout, "npu")
    assert of(report, "device nodes")[0].status == "problem"
    # what cannot be seen without a device is not complained about as well
    assert not of(report, "CANN") and not of(report, "AscendCL")


def test_an_npu_is_used_where_there_is_one(root, layout):
    report = examine(npu_machine(root), layout)
    assert report.device == "npu" and report.problems == 0


def test_an_npu_that_is_not_to_be_used_is_only_mentioned(root, layout):
    report = examine(npu_machine(root), layout, "cpu")
    assert report.problems == 0 and "would not use" in of(report, "npu")[0].text


def test_cann_without_a_device_is_a_hint_at_a_container_without_its_devices(root, layout):
    devices = ("/dev/davinci0", "/dev/davinci1")
    report = examine(npu_machine(root, without=devices), layout)
    assert report.device == "cpu" and of(report, "npu")[0].status == "warning"


def test_the_environment_may_say_the_device(root, layout):
    assert examine(plain_machine(root, environment={"VOXREPO_DEVICE": "npu"}), layout).device == "npu"
    report = examine(plain_machine(root, environment={"VOXREPO_DEVICE": "tpu"}), layout)
    assert of(report, "device")[0].status == "problem"


def test_a_model_for_this_chip_runs_on_the_npu(root, layout):
    add_om(layout)
    report = examine(npu_machine(root), layout)
    assert [(item.model, item.version, item.place) for item in report.graphs] == [("classifier", 1, "npu")]
    assert report.problems == 0
    assert any("need at least 1 MiB on the device" in finding.text for finding in of(report, "memory"))


def test_every_version_that_is_served_is_looked_at(root, layout):
    folder = add_om(layout).parent.parent
    for version in ("2", "3"):
        shutil.copytree(folder / "1", folder / version)
    (folder / "2" / "model.om").write_bytes(b"")
    (folder / "config.pbtxt").write_text("version_policy: { all { } }", encoding="utf-8")
    report = examine(npu_machine(root), layout)
    assert [item.version for item in report.graphs] == [1, 3]
    (finding,) = of(report, "model classifier version 2")
    assert finding.status == "problem" and "the file is empty" in finding.text


def test_a_model_for_another_chip_is_named_with_the_flag_to_rebuild_it(root, layout):
    add_om(layout, soc_version="Ascend310P3")
    report = examine(npu_machine(root), layout)
    (finding,) = of(report, "model classifier")
    assert finding.status == "problem" and "--soc_version=Ascend910B3" in finding.text
    assert report.graphs[0].place == "nowhere" and report.graphs[0].reason


def test_the_chip_is_taken_from_npu_smi_where_ascendcl_does_not_tell(root, layout):
    add_om(layout, soc_version="Ascend310P3")
    run = Programs(probe={"python": "3.11", "import_error": "ImportError: x"})
    assert "this device is Ascend910B3" in of(examine(npu_machine(root, run=run), layout), "model classifier")[0].text


def test_a_slice_of_a_chip_needs_models_built_for_it(root, layout):
    add_om(layout)
    machine = npu_machine(root, without=("/dev/davinci0", "/dev/davinci1"), files={"/dev/vdavinci100": ""})
    assert "--virtual_type=1" in of(examine(machine, layout), "model classifier")[0].text


def test_models_that_do_not_fit_into_the_memory_left_are_a_problem(root, layout):
    add_om(layout, memory_size=3 << 30)
    device = {"device": 0, "set_device": 0, "get_mem_info": 0, "free_bytes": 1 << 30, "total_bytes": 64 << 30}
    report = examine(npu_machine(root, run=Programs(probe=answers(devices=[device]))), layout)
    (finding,) = of(report, "memory")
    assert finding.status == "problem" and "3072 MiB on the device, 1024 MiB are free" in finding.text


def test_a_model_for_an_npu_goes_nowhere_on_a_server_without_one(root, layout):
    add_om(layout)
    report = examine(plain_machine(root), layout)
    (finding,) = of(report, "model classifier")
    assert finding.status == "problem" and "never moved to the CPU" in finding.text


def test_models_for_the_emulator_and_for_npus_are_kept_apart(root, layout):
    add_om(layout)
    add_emulated(layout)
    on_npu = examine(npu_machine(root), layout, "npu")
    assert {item.model: item.place for item in on_npu.graphs} == {"classifier": "npu", "emulated": "nowhere"}
    emulated = examine(plain_machine(root), layout, "emulator")
    assert {item.model: item.place for item in emulated.graphs} == {"classifier": "nowhere", "emulated": "emulator"}


def test_a_damaged_model_is_a_problem_with_file_and_reason(root, layout):
    file = add_om(layout)
    file.write_bytes(file.read_bytes()[:-5])
    report = examine(npu_machine(root), layout)
    (finding,) = of(report, "model classifier")
    assert str(file) in finding.text and "truncated" in finding.text


def test_an_unsound_voice_is_a_problem(root, layout):
    make_voice(layout, "tiny")
    next(layout.version_dir("tiny.vocoder", 1).glob("*.onnx")).unlink()
    report = examine(plain_machine(root), layout)
    assert of(report, "voice tiny")[0].status == "problem"


def test_a_root_with_nothing_in_it_is_a_warning(root, tmp_path):
    report = examine(plain_machine(root), Layout.of(tmp_path / "empty"))
    assert of(report, "repository")[0].status == "warning" and report.problems == 0


def test_the_emulator_is_imported_as_a_worker_would(root, layout, tmp_path):
    folder = tmp_path / "emulator"
    write(folder, {"/acl/__init__.py": ""})
    environment = {variables.EMULATOR_DIR: str(folder)}
    found = {answer: _emulator(root, environment, answer) for answer in (True, False)}
    assert found == {True: "ok", False: "problem"}
    (missing,) = emulator.check_emulator(plain_machine(root, environment={variables.EMULATOR_DIR: "/gone"}))
    assert missing.status == "problem" and "/gone" in missing.text


def _emulator(root: Path, environment: dict[str, str], answer: bool) -> str:
    run = Programs(probe=answers(emulator=answer))
    (finding,) = emulator.check_emulator(plain_machine(root, environment=environment, run=run))
    assert run.asked[0][-1] == "import-only"
    return finding.status


def test_the_emulator_of_this_installation_imports(root):
    machine = plain_machine(root, run=run_program, python=sys.executable, environment=dict(os.environ))
    (finding,) = emulator.check_emulator(machine)
    assert finding.status == "ok", finding.text
