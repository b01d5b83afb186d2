"""The variables that hide devices."""

from __future__ import annotations

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, ok, problem

RUNTIME_VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"
CONTAINER_VARIABLE = "ASCEND_VISIBLE_DEVICES"


def check_visible(machine: Machine, device_count: int) -> list[Finding]:
    """Whether ``ASCEND_RT_VISIBLE_DEVICES`` names devices that are there.

    Args:
        machine: the machine.
        device_count: number of device nodes.
    """
    findings = []
    if RUNTIME_VARIABLE in machine.environment:
        findings.append(_runtime(machine.environment[RUNTIME_VARIABLE], device_count))
    container = machine.environment.get(CONTAINER_VARIABLE)
    if container:
        findings.append(
            ok(
                "visible devices",
                f"{CONTAINER_VARIABLE} is {container}: the container runtime chose the devices, which are counted "
                "from 0 here.",
            )
        )
    return findings


def _runtime(value: str, device_count: int) -> Finding:
    check = "visible devices"
    names = [name.strip() for name in value.split(",")]
    wrong = [name for name in names if not name.isdigit()]
    if wrong:
        return problem(
            check,
            f"{RUNTIME_VARIABLE} is {value!r}, which hides every device.",
            f"Unset it, or write numbers with commas between, from 0 to {max(device_count - 1, 0)}.",
        )
    numbers = [int(name) for name in names]
    if len(set(numbers)) < len(numbers):
        return problem(check, f"{RUNTIME_VARIABLE} is {value!r} and names a device twice.", "Name each device once.")
    beyond = [number for number in numbers if number >= device_count]
    if beyond:
        return problem(
            check,
            f"{RUNTIME_VARIABLE} is {value!r}, but there are {device_count} device nodes, counted from 0; what follows "
            "the first unknown number is hidden.",
            "Name devices that are in this container or machine.",
        )
    return ok(
        check,
        f"{RUNTIME_VARIABLE} is {value}: device 0 of this server is device {numbers[0]} of this machine.",
    )
