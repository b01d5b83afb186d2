"""The NPU's device nodes and driver."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.nodes import npu_nodes
from voxrepo.doctor.report import Finding, ok, problem, warning

CONTROL_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""Nodes that every program on an NPU opens, beside that of its device."""

GROUP = "HwHiAiUser"
DRIVER = "/usr/local/Ascend/driver"
INSTALL_INFO = "/etc/ascend_install.info"


@dataclass(frozen=True)
class Nodes:
    """The device nodes that are there.

    Attributes:
        devices: names of whole chips, e.g. ``davinci0``.
        slices: names of slices of chips, e.g. ``vdavinci100``.
    """

    devices: tuple[str, ...]
    slices: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return self.devices + self.slices


def find_nodes(machine: Machine) -> Nodes:
    """The NPU's device nodes under ``/dev``."""
    names = npu_nodes(machine.names("/dev", "*davinci*"))
    return Nodes(
        tuple(name for name in names if not name.startswith("v")), tuple(name for name in names if name.startswith("v"))
    )


def check_nodes(machine: Machine, nodes: Nodes) -> list[Finding]:
    """Whether the nodes are complete and may be used by this user."""
    check = "device nodes"
    if not nodes.all:
        return [
            problem(
                check,
                "There is no NPU in this machine: no /dev/davinci0 or the like.",
                "On a server with an NPU, install driver and firmware and look at `npu-smi info`; in a container, "
                "pass the devices in (docker run --device /dev/davinci0 --device /dev/davinci_manager "
                "--device /dev/devmm_svm --device /dev/hisi_hdc).",
            )
        ]
    findings = []
    missing = [name for name in CONTROL_NODES if not machine.at(f"/dev/{name}").exists()]
    if missing:
        shown = ", ".join(f"/dev/{name}" for name in missing)
        flags = " ".join(f"--device /dev/{name}" for name in missing)
        findings.append(
            problem(
                check,
                f"{shown} {'is' if len(missing) == 1 else 'are'} missing, without which no device opens (507033).",
                f"In a container, pass them in: docker run {flags}. On the host itself, the driver is not loaded.",
            )
        )
    there = [name for name in (*nodes.all, *CONTROL_NODES) if name not in missing]
    barred = [name for name in there if not machine.usable(machine.at(f"/dev/{name}"))]
    if barred:
        findings.append(_barred(machine, barred))
    if not findings:
        findings.append(ok(check, f"{', '.join(nodes.all)} and the control nodes are there and may be used."))
    if nodes.slices:
        findings.append(
            warning(
                "vNPU",
                f"{', '.join(nodes.slices)} {'is a slice' if len(nodes.slices) == 1 else 'are slices'} of a chip.",
                "Models for slices must be built with atc --virtual_type=1.",
            )
        )
    return findings


def _barred(machine: Machine, names: list[str]) -> Finding:
    shown = ", ".join(f"/dev/{name}" for name in names)
    if GROUP in machine.groups or machine.is_root:
        advice = "Look at their owner and mode with `ls -l`; in a container, the device may be passed in read-only."
    else:
        advice = f"Add this user to the group {GROUP} (usermod -aG {GROUP} $USER) and log in again."
    return problem("device nodes", f"This user may not read and write {shown} (507033, 207006).", advice)


def check_driver(machine: Machine) -> list[Finding]:
    """Version of the driver, and whether its libraries are there."""
    folder = driver_folder(machine)
    mount = (
        f"In a container, mount them from the host: -v {folder}/lib64:{folder}/lib64:ro "
        f"-v {folder}/version.info:{folder}/version.info:ro."
    )
    findings = []
    values = machine.values(f"{folder}/version.info")
    version = (values or {}).get("version", "")
    if version:
        findings.append(ok("driver", f"Driver {version}."))
    else:
        findings.append(
            warning("driver", f"The driver's version cannot be read: {folder}/version.info is not there.", mount)
        )
    if not machine.at(f"{folder}/lib64").is_dir():
        findings.append(problem("driver", f"The driver's libraries are missing: {folder}/lib64.", mount))
    return findings


def driver_folder(machine: Machine) -> str:
    """Where the driver was installed."""
    base = (machine.values(INSTALL_INFO) or {}).get("driver_install_path_param", "")
    return str(Path(base) / "driver") if base.startswith("/") else DRIVER
