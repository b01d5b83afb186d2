"""AscendCL, ais_bench and torch_npu, as the device worker's Python would find them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, ok, problem, warning
from voxrepo_contract import environment as variables

PROBE = Path(__file__).with_name("acl_probe.py")
TIMEOUT_S = 120.0
"""The first use of a device takes seconds, with many devices and a cold driver a minute."""

_ADVICE = {
    100039: "A library made for building only is in LD_LIBRARY_PATH (folders devlib, stub); take it out.",
    107001: "The driver is not loaded, or ASCEND_RT_VISIBLE_DEVICES names a device that is not there.",
    207004: "The device's node is missing; pass it into the container.",
    207006: "This user may not open the device; add it to the group HwHiAiUser.",
    507033: "The device cannot be opened: another program holds it, the user may not, or driver and firmware differ.",
    507899: "The driver has failed; look at dmesg, and reset the chip.",
}


@dataclass(frozen=True)
class AclDevice:
    """A device that was opened. Bytes."""

    number: int
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Probed:
    """What the probe found.

    Attributes:
        soc: chip, "" if not known.
        devices: devices that could be opened.
    """

    soc: str = ""
    devices: tuple[AclDevice, ...] = field(default=())


def probe(machine: Machine, *, import_only: bool = False, path: str = "") -> dict[str, Any] | str:
    """Ask the worker's Python; the answer, or a sentence on why there is none.

    Args:
        machine: the machine.
        import_only: stop after importing ``acl``.
        path: folder to put in front of the Python path.
    """
    python = machine.variable(variables.WORKER_PYTHON) or machine.python
    environment = dict(machine.environment)
    if path:
        environment["PYTHONPATH"] = ":".join(filter(None, (path, environment.get("PYTHONPATH", ""))))
    command = [python, "-s", str(PROBE), *(["import-only"] if import_only else [])]
    ran = machine.run(command, environment, TIMEOUT_S)
    if ran is None:
        return f"{python} cannot be run"
    if ran.exit_code is None:
        return f"{python} did not finish within {TIMEOUT_S:.0f} s, the driver may hang"
    lines = ran.stdout.strip().splitlines()
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
        return f"{python} ended with exit status {ran.exit_code}: {said[-1] if said else 'it said nothing'}"
    return answer if isinstance(answer, dict) else f"{python} answered {answer!r}"


def check_acl(machine: Machine) -> tuple[list[Finding], Probed]:
    """Whether AscendCL can be imported and opens its devices."""
    check = "AscendCL"
    answer = probe(machine)
    if isinstance(answer, str):
        return [problem(check, f"The device worker's Python failed: {answer}.", "See VOXREPO_WORKER_PYTHON.")], Probed()
    python = f"Python {answer.get('python', '')} of the device worker"
    if "import_error" in answer:
        advice = (
            "Source CANN's set_env.sh, which puts its Python modules into PYTHONPATH; if it is built for another "
            "Python, set VOXREPO_WORKER_PYTHON to that one."
        )
        return [
            problem(check, f"The {python} cannot import acl ({answer['import_error'].rstrip('.')}).", advice)
        ], Probed()
    if answer.get("emulator"):
        text = f"The {python} imports voxrepo's emulator instead of AscendCL ({answer.get('file', '')})."
        return [problem(check, text, "Take its folder out of PYTHONPATH.")], Probed()
    findings: list[Finding] = []
    # 100002: somebody else initialised it, which is fine
    for call in ("init", "get_device_count"):
        code = answer.get(call, 0)
        if code not in (0, 100002):
            findings.append(
                problem(check, f"acl {call} fails with {code}.", _ADVICE.get(code, "See docs/operations.md."))
            )
    devices = []
    for item in answer.get("devices", []):
        code = item["set_device"] or item.get("get_mem_info", 0)
        if code:
            advice = _ADVICE.get(code, "Look at `npu-smi info` and the log under ~/ascend/log.")
            findings.append(problem(check, f"Device {item['device']} cannot be opened ({code}).", advice))
        else:
            devices.append(AclDevice(item["device"], item["free_bytes"], item["total_bytes"]))
    if not findings and not devices:
        findings.append(problem(check, "AscendCL sees no device.", _ADVICE[107001]))
    elif not findings:
        free = ", ".join(f"device {d.number}: {_gib(d.free_bytes)} of {_gib(d.total_bytes)} free" for d in devices)
        findings.append(ok(check, f"The {python} opens {answer.get('soc') or 'a chip of unknown name'}; {free}."))
    if not answer.get("numpy", True):
        findings.append(problem(check, f"The {python} has no numpy.", "Install numpy for that Python."))
    return [*findings, *check_other_runtimes(answer)], Probed(answer.get("soc", ""), tuple(devices))


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"


def check_other_runtimes(answer: dict[str, Any]) -> list[Finding]:
    """What is there of ais_bench and torch_npu; neither is needed unless a model asks for it."""
    findings = []
    if answer.get("ais_bench_interface") and answer.get("aclruntime"):
        findings.append(ok("ais_bench", "ais_bench with InferSession is here (runtime ais_bench)."))
    elif answer.get("ais_bench") and not answer.get("ais_bench_interface"):
        findings.append(
            warning(
                "ais_bench",
                "The package ais_bench that is installed is another one, for evaluating language models.",
                "Models with runtime ais_bench need the wheels ais_bench and aclruntime of Ascend's tools.",
            )
        )
    elif answer.get("ais_bench_interface"):
        findings.append(
            warning(
                "ais_bench",
                "ais_bench is installed without aclruntime, or with one for another Python.",
                "Install the wheel aclruntime for just this Python version.",
            )
        )
    if answer.get("torch_npu"):
        findings.append(ok("torch_npu", "torch_npu is here (runtime torch_npu)."))
    elif answer.get("torch"):
        findings.append(ok("torch_npu", "torch is here, torch_npu is not; only the runtime torch_npu needs it."))
    return findings
