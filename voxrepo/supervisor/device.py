"""What graphs with ``device: npu`` run on: a real NPU, the emulator, or nothing. Decided once, said plainly.

A graph that asks for an NPU is refused where none works; it is never moved to the CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from voxrepo.doctor.nodes import npu_nodes
from voxrepo.repository.layout import emulator_folder
from voxrepo_contract import environment as variables
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import write_text_atomically

Asked = Literal["auto", "cpu", "npu", "emulator"]
Device = Literal["cpu", "npu", "emulator"]

PROBE_TIMEOUT_S = 60.0
_PROBE = "import acl, numpy; print('emulator' if hasattr(acl, 'EMULATOR') else 'npu')"
_EMULATED_SOC = "Ascend910B3"


@dataclass(frozen=True)
class DeviceChoice:
    """What the engine is told.

    Attributes:
        device: what serves graphs with ``device: npu``.
        reason: why it is this one, as a sentence without its subject.
        worker_python: the Python that device workers run under.
        emulator_dir: folder of the emulator's ``acl``.
        emulator_settings: the emulator's settings file.
    """

    device: Device
    reason: str
    worker_python: Path
    emulator_dir: Path | None = None
    emulator_settings: Path | None = None

    @property
    def label(self) -> str:
        """One line for the start message and ``voxrepo status``."""
        if self.device == "emulator":
            return f"EMULATOR, no NPU: {self.reason}"
        return f"{self.device}: {self.reason}"

    def environment(self) -> dict[str, str]:
        """Variables for the engine, inherited by its stubs and their workers."""
        environment = {variables.DEVICE: self.device, variables.WORKER_PYTHON: str(self.worker_python)}
        if self.emulator_dir is not None:
            environment[variables.EMULATOR_DIR] = str(self.emulator_dir)
        if self.emulator_settings is not None:
            environment[variables.EMULATOR_SETTINGS] = str(self.emulator_settings)
        return environment


def choose_device(
    asked: Asked,
    *,
    worker_python: Path | None = None,
    devices: Path = Path("/dev"),
    probe: Callable[[Path], str] | None = None,
) -> DeviceChoice:
    """Decide for ``--device``.

    Args:
        asked: what the operator wants.
        worker_python: ``--worker-python``; this Python if not given.
        devices: folder of the device nodes.
        probe: tells what is wrong with ``acl`` under a Python, "" if nothing; see :func:`probe_acl`.

    Raises:
        ConfigError: an NPU is asked for and none works, or the worker's Python or the emulator is missing.
    """
    python = find_python(worker_python)
    if asked == "cpu":
        return DeviceChoice("cpu", "as asked for with --device cpu; graphs that ask for an NPU are refused", python)
    if asked == "emulator":
        return DeviceChoice(
            "emulator",
            "graphs that ask for an NPU run in software, slowly and for tests only (--device emulator)",
            python,
            emulator_dir=find_emulator(),
        )
    trouble = npu_trouble(python, devices, probe or probe_acl)
    if not trouble:
        nodes = ", ".join(davinci_nodes(devices))
        return DeviceChoice("npu", f"{nodes}, acl of {python}", python)
    if asked == "npu":
        raise ConfigError(f"--device npu: {trouble}; `voxrepo doctor --device npu` looks closer")
    return DeviceChoice("cpu", f"{trouble}; graphs that ask for an NPU are refused", python)


def find_python(path: Path | None) -> Path:
    """The Python for device workers.

    Raises:
        ConfigError: it is no program.
    """
    if path is None:
        return Path(sys.executable)
    found = path.expanduser().absolute()
    if not found.is_file() or not os.access(found, os.X_OK):
        raise ConfigError("--worker-python: no such program; give the path of a Python interpreter", file=found)
    return found


def find_emulator() -> Path:
    """The emulator's folder.

    Raises:
        ConfigError: this installation has none.
    """
    try:
        return emulator_folder()
    except FileNotFoundError as error:
        raise ConfigError(f"--device emulator: {error}") from error


def davinci_nodes(devices: Path) -> list[str]:
    """Names of the device nodes of NPUs, or of slices of them (``vdavinci100``)."""
    return npu_nodes(entry.name for entry in devices.glob("*davinci*"))


def npu_trouble(python: Path, devices: Path, probe: Callable[[Path], str]) -> str:
    """Why no NPU can be used, "" if one can."""
    if not davinci_nodes(devices):
        return f"there is no NPU here (no {devices / 'davinci0'} or the like)"
    return probe(python)


def probe_acl(python: Path) -> str:
    """What is wrong with AscendCL's Python module under ``python``, "" if nothing. Runs it as a child."""
    try:
        result = subprocess.run(
            [str(python), "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"`import acl` under {python} did not end within {PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{python} cannot be run ({error.strerror})"
    if result.returncode != 0:
        said = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        return (
            f"`import acl, numpy` fails under {python} ({said}); source CANN's set_env.sh before starting, or name "
            "CANN's Python with --worker-python"
        )
    if result.stdout.strip() != "npu":
        return f"`import acl` under {python} gives voxrepo's emulator, not CANN's module; take it off PYTHONPATH"
    return ""


def read_emulator_settings(file: Path) -> dict[str, Any]:
    """What the operator's ``--emulator-settings`` says.

    Raises:
        ConfigError: it is not a JSON object.
    """
    if file.exists() and not file.is_file():
        # a pipe or a device may have no end
        raise ConfigError("--emulator-settings: is no regular file", file=file)
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"--emulator-settings: cannot be read: {error.strerror}", file=file) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--emulator-settings: is not JSON: {error}", file=file) from error
    if not isinstance(value, dict):
        raise ConfigError("--emulator-settings: must hold a JSON object", file=file)
    return value


def prepare_emulator(choice: DeviceChoice, given: Path | None, state: Path, reports: Path) -> DeviceChoice:
    """Write the settings that the emulator reads: ours, and over them what the operator gave.

    Args:
        choice: what the engine is told; nothing is done unless it is the emulator.
        given: ``--emulator-settings``.
        state: folder for the written file.
        reports: folder for what the emulator has to say of the runtime's calls.

    Raises:
        ConfigError: the operator's file is wrong or for nothing, or ours cannot be written.
    """
    if choice.device != "emulator":
        if given is not None:
            raise ConfigError(f"--emulator-settings: the device is {choice.device}; use it with --device emulator")
        return choice
    settings = {
        "soc": _EMULATED_SOC,
        "report_dir": str(reports),
        "memory_file": str(state / "emulator-memory.json"),
        **({} if given is None else read_emulator_settings(given)),
    }
    file = state / "emulator.json"
    try:
        if isinstance(settings["report_dir"], str):
            Path(settings["report_dir"]).mkdir(parents=True, exist_ok=True)
        write_text_atomically(file, json.dumps(settings, indent=1))
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=error.filename or file) from error
    return replace(choice, emulator_settings=file)
