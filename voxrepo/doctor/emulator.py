"""Whether the emulator is there and is what would be imported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import voxrepo
from voxrepo.doctor.libraries import probe
from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, ok, problem
from voxrepo.repository.layout import emulator_folder
from voxrepo_contract import environment as variables


def check_emulator(machine: Machine) -> list[Finding]:
    """Whether importing ``acl`` from the emulator's folder gives the emulator."""
    check = "emulator"
    try:
        folder = machine.variable(variables.EMULATOR_DIR) or str(emulator_folder())
    except FileNotFoundError as error:
        return [problem(check, f"{str(error)[:1].upper()}{str(error)[1:]}.")]
    if not (Path(folder) / "acl" / "__init__.py").is_file():
        advice = f"Unset {variables.EMULATOR_DIR}, or name the folder that holds it."
        return [problem(check, f"{folder} does not hold the emulator (acl/__init__.py).", advice)]
    package = str(Path(voxrepo.__file__).parent.parent)
    # the emulator refuses to be imported by accident
    asked = replace(machine, environment={**machine.environment, variables.DEVICE: "emulator"})
    answer = probe(asked, import_only=True, path=f"{folder}:{package}")
    if isinstance(answer, str):
        return [problem(check, f"The emulator does not start: {answer}.")]
    if "import_error" in answer:
        return [problem(check, f"The emulator does not import: {answer['import_error'].rstrip('.')}.")]
    if not answer.get("emulator"):
        text = f"A real AscendCL ({answer.get('file', '')}) is imported instead of the emulator."
        return [problem(check, text, "Serve with --device npu, or unset PYTHONPATH.")]
    return [ok(check, f"The emulator is in {folder}.")]
