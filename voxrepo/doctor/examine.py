"""The examination: which checks are made, in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from voxrepo.doctor import cann, driver, emulator, host, libraries, npu_smi, repository, visible
from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, Report, ok, problem, warning
from voxrepo.doctor.repository import Device, Npu
from voxrepo.repository.layout import Layout
from voxrepo_contract import environment as variables

DEVICES: tuple[Device, ...] = ("cpu", "npu", "emulator")


@dataclass(frozen=True)
class Examined:
    """What the NPU's examination gave."""

    findings: Sequence[Finding]
    npu: Npu


def examine(
    machine: Machine,
    layout: Layout,
    device: Device | None = None,
    engine: Path | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Report:
    """Examine a machine and a repository.

    Args:
        machine: the machine.
        layout: of the root.
        device: what the server is to be started for; by default what ``VOXREPO_DEVICE`` says, else ``npu`` where
            there is one.
        engine: tritonserver to use instead of the wheel's.
        progress: called with what is looked at next.
    """
    nodes = driver.find_nodes(machine)
    asked, chosen = _device(machine, device, has_npu=bool(nodes.all))
    report = Report(asked)
    if chosen is not None:
        report.findings.append(chosen)
    progress("python and engine")
    report.findings += host.check_python()
    report.findings += host.check_engine(engine)
    report.findings += host.check_onnxruntime()
    report.findings += host.check_space(machine, layout)
    npu = Npu()
    if asked == "npu":
        progress("NPU")
        examined = examine_npu(machine, nodes)
        report.findings += examined.findings
        npu = examined.npu
    elif asked == "emulator":
        progress("emulator")
        report.findings += emulator.check_emulator(machine)
    else:
        report.findings.append(_without_npu(machine, nodes))
    progress("repository")
    findings, inventory = repository.take_stock(layout)
    report.findings += findings
    report.findings += host.check_espeak(repository.voices_with_espeak(inventory))
    findings, report.graphs = repository.check_graphs(machine, layout, inventory, asked, npu)
    report.findings += findings
    return report


def _device(machine: Machine, device: Device | None, *, has_npu: bool) -> tuple[Device, Finding | None]:
    if device is not None:
        return device, None
    value = machine.variable(variables.DEVICE)
    found: Device = "npu" if has_npu else "cpu"
    if value in ("", "auto"):
        return found, None
    for known in DEVICES:
        if value == known:
            return known, None
    text = f"{variables.DEVICE} is {value!r}; it must be one of {', '.join(DEVICES)}."
    return found, problem("device", text, "Correct or unset it.")


def _without_npu(machine: Machine, nodes: driver.Nodes) -> Finding:
    if nodes.all:
        return ok("npu", f"There are NPUs here ({', '.join(nodes.all)}), which the server would not use.")
    found = cann.find_cann(machine)
    if found is not None:
        return warning(
            "npu",
            f"CANN is installed in {found.home}, but there is no NPU here: no /dev/davinci0 or the like.",
            "If this is a container that should have one, pass its devices in (see --device npu).",
        )
    return ok("npu", "There is no NPU in this machine; graphs run on the CPU.")


def examine_npu(machine: Machine, nodes: driver.Nodes) -> Examined:
    """All checks of NPU, driver and CANN."""
    findings = driver.check_nodes(machine, nodes)
    if not nodes.all:
        return Examined(findings, Npu())
    findings += driver.check_driver(machine)
    findings += visible.check_visible(machine, len(nodes.all))
    chip_findings, chips, smi_soc = npu_smi.check_chips(machine)
    findings += chip_findings
    found = cann.find_cann(machine)
    findings += cann.check_cann(machine, found)
    probed = libraries.Probed()
    if found is not None:
        acl_findings, probed = libraries.check_acl(machine)
        findings += acl_findings
    free = min((device.free_bytes for device in probed.devices), default=0)
    if not free and chips:
        free = min(chip.total_mb - chip.used_mb for chip in chips) << 20
    return Examined(
        findings,
        Npu(
            soc=probed.soc or smi_soc,
            opp_version=found.opp_version if found is not None else "",
            virtual=bool(nodes.slices) and not nodes.devices,
            free_bytes=free,
        ),
    )
