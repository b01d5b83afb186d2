from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from voxrepo.supervisor import device
from voxrepo.supervisor.device import (
    DeviceChoice,
    choose_device,
    davinci_nodes,
    prepare_emulator,
    probe_acl,
    read_emulator_settings,
)
from voxrepo_contract.errors import ConfigError


def works(python: Path) -> str:
    return ""


def fails(python: Path) -> str:
    return "`import acl, numpy` fails"


def never(python: Path) -> str:
    raise AssertionError("nothing must be started")


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """A folder of device nodes with one NPU."""
    folder = tmp_path / "dev"
    folder.mkdir()
    for name in ("davinci0", "davinci_manager", "devmm_svm", "null"):
        (folder / name).touch()
    return folder


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    """A folder of device nodes without an NPU."""
    folder = tmp_path / "none"
    folder.mkdir()
    (folder / "davinci_manager").touch()
    return folder


def python_that(folder: Path, module: str) -> Path:
    """An interpreter under which ``acl`` is the given code."""
    (folder / "modules").mkdir()
    (folder / "modules" / "acl.py").write_text(module, encoding="utf-8")
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={folder / "modules"} exec {sys.executable} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return script


def test_only_numbered_nodes_are_devices(nodes: Path):
    assert davinci_nodes(nodes) == ["davinci0"]


def test_slices_of_a_chip_are_devices_too(nodes: Path):
    (nodes / "vdavinci100").touch()
    assert davinci_nodes(nodes) == ["davinci0", "vdavinci100"]


def test_auto_takes_an_npu_that_works(nodes: Path):
    choice = choose_device("auto", devices=nodes, probe=works)
    assert choice.device == "npu"
    assert choice.label.startswith("npu: davinci0, acl of ")


def test_auto_without_an_npu_says_why_and_starts_nothing(nothing: Path):
    choice = choose_device("auto", devices=nothing, probe=never)
    assert choice.device == "cpu"
    assert choice.label == (
        f"cpu: there is no NPU here (no {nothing / 'davinci0'} or the like); graphs that ask for an NPU are refused"
    )


def test_auto_with_an_npu_that_does_not_work_says_why(nodes: Path):
    choice = choose_device("auto", devices=nodes, probe=fails)
    assert (choice.device, choice.reason) == (
        "cpu",
        "`import acl, numpy` fails; graphs that ask for an NPU are refused",
    )


def test_cpu_looks_at_no_device(nodes: Path):
    assert choose_device("cpu", devices=nodes, probe=never).device == "cpu"


def test_an_npu_that_is_asked_for_and_missing_is_an_error(nothing: Path, nodes: Path):
    with pytest.raises(ConfigError, match="--device npu: there is no NPU here"):
        choose_device("npu", devices=nothing, probe=never)
    with pytest.raises(ConfigError, match="--device npu: `import acl, numpy` fails; `voxrepo doctor"):
        choose_device("npu", devices=nodes, probe=fails)
    assert choose_device("npu", devices=nodes, probe=works).device == "npu"


def test_the_emulator_is_said_loudly_and_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nothing: Path):
    monkeypatch.setattr(device, "emulator_folder", lambda: tmp_path / "emulator")
    choice = choose_device("emulator", devices=nothing, probe=never)
    assert choice.label.startswith("EMULATOR, no NPU: ")
    assert choice.emulator_dir == tmp_path / "emulator"


def test_an_installation_without_the_emulator_says_so(monkeypatch: pytest.MonkeyPatch):
    def missing() -> Path:
        raise FileNotFoundError("the emulator is missing from this installation of voxrepo; install it again")

    monkeypatch.setattr(device, "emulator_folder", missing)
    with pytest.raises(ConfigError, match="--device emulator: the emulator is missing"):
        choose_device("emulator")


def test_the_worker_runs_under_this_python_or_the_one_given(tmp_path: Path):
    assert choose_device("cpu").worker_python == Path(sys.executable)
    other = tmp_path / "python"
    with pytest.raises(ConfigError, match="--worker-python: no such program"):
        choose_device("cpu", worker_python=other)
    other.touch(mode=0o755)
    assert choose_device("cpu", worker_python=other).worker_python == other


# What is asked of the worker's Python


def test_a_module_that_imports_is_an_npus(tmp_path: Path):
    assert probe_acl(python_that(tmp_path, "")) == ""


def test_the_emulator_does_not_pass_for_an_npu(tmp_path: Path):
    assert "gives voxrepo's emulator, not CANN's module" in probe_acl(python_that(tmp_path, "EMULATOR = True"))


def test_an_import_that_fails_is_told_by_its_last_line(tmp_path: Path):
    python = python_that(tmp_path, "raise ImportError('libascendcl.so: cannot open shared object file')")
    trouble = probe_acl(python)
    assert f"fails under {python} (ImportError: libascendcl.so: cannot open shared object file)" in trouble
    assert "source CANN's set_env.sh before starting" in trouble


def test_an_import_that_crashes_is_told(tmp_path: Path):
    assert "(exit code -11)" in probe_acl(python_that(tmp_path, "import os\nos.kill(os.getpid(), 11)"))


def test_an_import_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "PROBE_TIMEOUT_S", 1.0)
    assert "did not end within 1 s" in probe_acl(python_that(tmp_path, "import time\ntime.sleep(60)"))


def test_a_program_that_cannot_run_is_told(tmp_path: Path):
    broken = tmp_path / "python"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    assert "cannot be run (Exec format error)" in probe_acl(broken)


# What the engine gets


def test_the_engine_is_told_the_device_and_the_workers_python():
    choice = DeviceChoice("npu", "davinci0", Path("/opt/python"))
    assert choice.environment() == {"VOXREPO_DEVICE": "npu", "VOXREPO_WORKER_PYTHON": "/opt/python"}


def test_the_emulators_settings_are_ours_with_the_operators_over_them(tmp_path: Path):
    given = tmp_path / "mine.json"
    given.write_text('{"soc": "Ascend310P3", "device_count": 2}', encoding="utf-8")
    choice = DeviceChoice("emulator", "", Path("/opt/python"), emulator_dir=Path("/emulator"))
    ready = prepare_emulator(choice, given, tmp_path, tmp_path / "reports")
    file = tmp_path / "emulator.json"
    assert json.loads(file.read_bytes()) == {
        "soc": "Ascend310P3",
        "device_count": 2,
        "report_dir": str(tmp_path / "reports"),
        "memory_file": str(tmp_path / "emulator-memory.json"),
    }
    assert (tmp_path / "reports").is_dir()
    assert ready.environment() == {
        "VOXREPO_DEVICE": "emulator",
        "VOXREPO_WORKER_PYTHON": "/opt/python",
        "VOXREPO_EMULATOR_DIR": "/emulator",
        "VOXREPO_EMULATOR_SETTINGS": str(file),
    }


def test_the_emulators_reports_may_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    given = tmp_path / "mine.json"
    given.write_text('{"report_dir": null}', encoding="utf-8")
    prepare_emulator(DeviceChoice("emulator", "", Path("/opt/python")), given, tmp_path, tmp_path / "reports")
    assert json.loads((tmp_path / "emulator.json").read_bytes())["report_dir"] is None
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["emulator.json", "mine.json"]


@pytest.mark.parametrize(
    ("content", "says"), [(None, "cannot be read"), ("{", "is not JSON"), ("[]", "must hold a JSON object")]
)
def test_wrong_settings_of_the_emulator_are_refused(tmp_path: Path, content: str | None, says: str):
    file = tmp_path / "mine.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    choice = DeviceChoice("emulator", "", Path("/opt/python"))
    with pytest.raises(ConfigError, match=rf"mine\.json: --emulator-settings: {says}"):
        prepare_emulator(choice, file, tmp_path, tmp_path / "reports")


def test_settings_of_the_emulator_without_it_are_refused(tmp_path: Path):
    choice = DeviceChoice("cpu", "", Path("/opt/python"))
    assert prepare_emulator(choice, None, tmp_path, tmp_path) is choice
    with pytest.raises(ConfigError, match="the device is cpu; use it with --device emulator"):
        prepare_emulator(choice, tmp_path / "x", tmp_path, tmp_path)


def test_a_state_folder_that_cannot_be_written_is_named(tmp_path: Path):
    choice = DeviceChoice("emulator", "", Path("/opt/python"))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file/reports: cannot be written: Not a directory"):
        prepare_emulator(choice, None, tmp_path, tmp_path / "file" / "reports")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.timeout(20)
def test_emulator_settings_without_an_end_are_not_read():
    with pytest.raises(ConfigError, match="--emulator-settings: is no regular file"):
        read_emulator_settings(Path("/dev/zero"))
