"""What ``npu-smi`` prints, read. It has no JSON; two forms are used: the table of all chips, and ``Key : value``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, ok, problem, warning

TIMEOUT_S = 20.0
BUSY_PERCENT = 50
FEW_FREE_SHARE = 0.1
_PLACES = ("npu-smi", "/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi")
_USED = re.compile(r"(\d+)\s*/\s*(\d+)")
_FAULTY = ("Alarm", "Critical")


@dataclass(frozen=True)
class Process:
    """A process on a chip. Memory in MB, as npu-smi counts."""

    pid: int
    name: str
    memory_mb: int


@dataclass(frozen=True)
class Chip:
    """A chip. Memory in MB, as npu-smi counts; that of the kind that the chip computes in.

    Attributes:
        npu: number of its card.
        chip: number on its card.
        name: e.g. ``910B3``; ``Ascend910`` on A3, where the board's description must be asked.
        health: ``OK``, ``Warning``, ``Alarm``, ``Critical`` or ``UNKNOWN``.
        busy_percent: of the AI cores; None if not said.
        used_mb: memory in use.
        total_mb: memory in all.
        processes: on it.
    """

    npu: int
    chip: int
    name: str
    health: str
    busy_percent: int | None = None
    used_mb: int = 0
    total_mb: int = 0
    processes: tuple[Process, ...] = field(default=())

    @property
    def label(self) -> str:
        """For messages."""
        return f"NPU {self.npu} chip {self.chip} ({self.name})"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else []


def parse_table(text: str) -> list[Chip]:
    """Chips from the table of ``npu-smi info``. Lines that are not understood are passed over."""
    chips: list[Chip] = []
    first: tuple[int, str, str] | None = None
    in_processes = False
    for line in text.splitlines():
        cells = _cells(line)
        if len(cells) < 3:
            continue
        if cells[1].lower().startswith("process id"):
            in_processes = True
        numbers = cells[0].split()
        if not numbers or not numbers[0].isdigit():
            continue
        if in_processes:
            _add_process(chips, cells, numbers)
        elif first is None:
            first = (int(numbers[0]), " ".join(numbers[1:]), cells[1])
        else:
            chips.append(_chip(first, int(numbers[0]), cells[2]))
            first = None
    return chips


def _chip(first: tuple[int, str, str], number: int, usage: str) -> Chip:
    npu, name, health = first
    words = usage.split()
    busy = int(words[0]) if words and words[0].isdigit() else None
    # memory on the board, then HBM where the chip has it
    pairs = [(int(used), int(total)) for used, total in _USED.findall(usage)]
    used, total = next((pair for pair in reversed(pairs) if pair[1] > 0), (0, 0))
    return Chip(npu, number, name, health, busy, used, total)


def _add_process(chips: list[Chip], cells: list[str], numbers: list[str]) -> None:
    if len(numbers) < 2 or not cells[1].isdigit() or not numbers[1].isdigit():
        return
    memory = cells[3] if len(cells) > 3 else ""
    process = Process(int(cells[1]), cells[2], int(memory) if memory.isdigit() else 0)
    for index, chip in enumerate(chips):
        if (chip.npu, chip.chip) == (int(numbers[0]), int(numbers[1])):
            chips[index] = replace(chip, processes=(*chip.processes, process))


def parse_values(text: str) -> dict[str, str]:
    """Pairs of lines ``Key : value``; the first of a key counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip():
            found.setdefault(key.strip(), value.strip())
    return found


def soc_name(machine: Machine, program: str, chip: Chip) -> str:
    """A chip's name as ATC takes it, e.g. ``Ascend910B3``; "" if npu-smi does not tell."""
    if chip.name and chip.name != "Ascend910":
        return chip.name if chip.name.startswith("Ascend") else f"Ascend{chip.name}"
    command = (program, "info", "-t", "board", "-i", str(chip.npu), "-c", str(chip.chip))
    ran = machine.run(command, machine.environment, TIMEOUT_S)
    values = parse_values(ran.stdout) if ran else {}
    family, number = values.get("Chip Name", ""), values.get("NPU Name", "")
    return f"{family}_{number}" if family.startswith("Ascend") and number else ""


def check_chips(machine: Machine) -> tuple[list[Finding], list[Chip], str]:
    """Health, load and memory of the chips; the chips, and the name of the first for ATC."""
    for program in _PLACES:
        ran = machine.run((program, "info"), machine.environment, TIMEOUT_S)
        if ran is not None:
            break
    else:
        text = "npu-smi is not here, so health and load of the chips are not known."
        return (
            [
                warning(
                    "npu-smi", text, "In a container, mount it: -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro."
                )
            ],
            [],
            "",
        )
    said = (ran.stdout + ran.stderr).strip()
    if ran.exit_code is None:
        text = f"npu-smi did not answer within {TIMEOUT_S:.0f} s."
        return (
            [problem("npu-smi", text, "The driver hangs; look at dmesg, and reset the chip or restart the machine.")],
            [],
            "",
        )
    if "-8020" in said:
        text = "npu-smi says that the device is in use: another container holds it."
        return [problem("npu-smi", text, "Stop that container, or give this one another device.")], [], ""
    chips = parse_table(ran.stdout)
    if ran.exit_code != 0 or not chips:
        last = said.splitlines()[-1] if said else "nothing"
        text = f"npu-smi shows no chip (exit status {ran.exit_code}): {last}"
        return (
            [problem("npu-smi", text, "Check driver and firmware; both must be of releases that go together.")],
            [],
            "",
        )
    findings = [finding for chip in chips for finding in _chip_findings(chip)]
    return findings, chips, soc_name(machine, program, chips[0])


def _chip_findings(chip: Chip) -> list[Finding]:
    findings = []
    if chip.health in _FAULTY:
        findings.append(
            problem(
                "chip", f"{chip.label} is in the state {chip.health}.", f"See `npu-smi info -t health -i {chip.npu}`."
            )
        )
    elif chip.health != "OK":
        findings.append(
            warning(
                "chip", f"{chip.label} is in the state {chip.health}.", f"See `npu-smi info -t health -i {chip.npu}`."
            )
        )
    if chip.processes or (chip.busy_percent or 0) >= BUSY_PERCENT:
        who = ", ".join(f"{process.name} (pid {process.pid}, {process.memory_mb} MB)" for process in chip.processes)
        busy = (
            f"its AI cores are {chip.busy_percent} % busy" if chip.busy_percent is not None else "its load is not known"
        )
        findings.append(
            warning(
                "chip",
                f"{chip.label} is in use by {who or 'a process that is not visible from here'}; {busy}.",
                "If that is not this server, expect slower answers and less memory, or choose another device "
                "(parameter device_ids).",
            )
        )
    free_mb = chip.total_mb - chip.used_mb
    if chip.total_mb and free_mb < FEW_FREE_SHARE * chip.total_mb:
        findings.append(
            warning("memory", f"{chip.label} has only {free_mb} of {chip.total_mb} MB free.", "Stop what fills it.")
        )
    if not findings:
        memory = f", {free_mb} of {chip.total_mb} MB free" if chip.total_mb else ""
        findings.append(ok("chip", f"{chip.label} is healthy and idle{memory}."))
    return findings
