"""What is read from a model file before it is loaded."""

from __future__ import annotations

import pickle

import pytest
from om_backend.acl.files import installed_opp_version, read_facts
from om_backend.device.faults import Action, DeviceFault

from tests.contract.om import builder
from voxrepo_contract import emulated_om


@pytest.fixture
def emulated(tmp_path):
    tensor = emulated_om.OmTensor("x", "FP32", (1, 8))
    header = emulated_om.OmHeader("m", "Ascend910B3", "static", (tensor,), (tensor,), weights_bytes=7, work_bytes=9)
    file = tmp_path / "m.om"
    emulated_om.write(file, header, b"graph")
    return file


def test_an_emulated_file_gives_its_facts(emulated):
    facts = read_facts(emulated, emulator=True, soc="ascend910b3")
    assert (facts.weights_bytes, facts.work_bytes, facts.input_bytes, facts.output_bytes) == (7, 9, (32,), (32,))


def test_an_emulated_file_is_refused_on_an_npu(emulated):
    with pytest.raises(DeviceFault, match="for the emulator, which no NPU runs") as met:
        read_facts(emulated, emulator=False, soc="Ascend910B3")
    assert met.value.action is Action.REFUSE


def test_an_emulated_file_for_another_chip_is_refused_with_both_names(emulated):
    with pytest.raises(DeviceFault, match=r"Ascend910B3.*Ascend310P3") as met:
        read_facts(emulated, emulator=True, soc="Ascend310P3")
    assert met.value.action is Action.REFUSE


def test_an_npu_file_is_refused_on_the_emulator(tmp_path):
    file = tmp_path / "m.om"
    file.write_bytes(b"IMOD" + bytes(300))
    with pytest.raises(DeviceFault, match="for an NPU, which the emulator does not run"):
        read_facts(file, emulator=True, soc="Ascend910B3")


@pytest.mark.parametrize("emulator", [True, False])
@pytest.mark.parametrize(
    "content", [b"", b"no model", b"PK\x03\x04rest", pickle.dumps({"a": 1}), b"IMOD", b"\x08\x07\x12\x04onnx" * 9]
)
def test_a_file_that_is_no_model_is_refused_with_a_reason(tmp_path, content, emulator):
    file = tmp_path / "m.om"
    file.write_bytes(content)
    with pytest.raises(DeviceFault) as met:
        read_facts(file, emulator=emulator, soc="")
    assert met.value.action is Action.REFUSE
    assert str(file) in met.value.advice


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DeviceFault, match="missing"):
        read_facts(tmp_path / "none.om", emulator=False, soc="")


def test_the_operator_package_is_found_by_its_environment(tmp_path):
    (tmp_path / "version.info").write_text("Name=opp\nVersion=7.3.T1\n")
    assert installed_opp_version({"ASCEND_OPP_PATH": str(tmp_path)}) == "7.3.T1"
    assert installed_opp_version({}) == ""
    assert installed_opp_version({"ASCEND_OPP_PATH": str(tmp_path / "none")}) == ""


@pytest.fixture
def write(tmp_path):
    def write(om):
        file = tmp_path / "m.om"
        file.write_bytes(om.write())
        return file

    return write


def test_an_npu_file_gives_its_facts_and_the_order_of_its_gears(write):
    facts = read_facts(write(builder.dims_gears()), emulator=False, soc="Ascend910B3")
    assert facts.soc == "Ascend910B3"
    assert facts.input_order == ("mask", "latent")
    assert (facts.weights_bytes, facts.work_bytes) == (4096, 1 << 20)
    assert facts.input_bytes == (98304, 512)
    assert facts.output_bytes == (40960,)
    assert not facts.takes_ranges


def test_an_npu_file_with_ranges_gives_them(write):
    facts = read_facts(write(builder.ranged()), emulator=False, soc="Ascend910B3")
    assert facts.takes_ranges
    assert facts.input_ranges == {"ids": ((1, 1), (1, 512))}


def test_an_npu_file_for_another_chip_is_refused_with_the_command_that_builds_it(write):
    with pytest.raises(DeviceFault, match=r"--soc_version=Ascend310P3") as met:
        read_facts(write(builder.dims_gears()), emulator=False, soc="Ascend310P3")
    assert met.value.action is Action.REFUSE


def test_a_range_file_for_another_operator_package_is_refused(write, tmp_path, monkeypatch):
    (tmp_path / "version.info").write_text("Version=1.2.3\n")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
    with pytest.raises(DeviceFault, match=r"7\.6\.0\.1\.220.*1\.2\.3"):
        read_facts(write(builder.ranged()), emulator=False, soc="Ascend910B3")


def test_an_npu_file_with_image_gears_is_refused(write):
    with pytest.raises(DeviceFault, match="image sizes"):
        read_facts(write(builder.image_gears()), emulator=False, soc="Ascend910B3")
