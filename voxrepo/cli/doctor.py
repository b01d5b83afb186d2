"""``voxrepo doctor``: what is wrong with this machine or repository, in sentences."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from voxrepo.cli.output import (
    EXIT_FAILED,
    JsonOption,
    RootOption,
    StateOption,
    console,
    layout_of,
    print_json,
    shows_errors,
)
from voxrepo.doctor.examine import examine
from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Report

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_CHECK_WIDTH = 16


class DeviceChoice(str, Enum):
    """What a server can be started for; ``auto`` is an NPU where there is one."""

    auto = "auto"
    cpu = "cpu"
    npu = "npu"
    emulator = "emulator"


@shows_errors
def doctor(
    root: RootOption = Path(),
    state_dir: StateOption = None,
    device: Annotated[
        DeviceChoice, typer.Option("--device", help="What the server is to run on; auto: an NPU where there is one.")
    ] = DeviceChoice.auto,
    engine: Annotated[
        Path | None, typer.Option(envvar="VOXREPO_ENGINE", help="A tritonserver to use instead of the wheel's.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Examine machine, NPU, CANN and repository, and say what to do.

    Exit status: 0 fine or warnings only, 1 something will not run, 2 wrong usage.
    """
    layout = layout_of(root, state_dir)
    with console.status("looking") as status:
        report = examine(
            Machine(),
            layout,
            None if device is DeviceChoice.auto else device.value,
            engine,
            lambda what: status.update(f"looking at {what}"),
        )
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if report.problems:
        raise typer.Exit(EXIT_FAILED)


def _show(report: Report) -> None:
    out = Console(highlight=False, soft_wrap=True)
    for finding in report.findings:
        mark = Text(f"{finding.status:<8}", style=_STYLES[finding.status])
        out.print(Text.assemble(mark, f" {finding.check:<{_CHECK_WIDTH}} ", finding.text))
        if finding.advice:
            out.print(Text(" " * (10 + _CHECK_WIDTH) + finding.advice))
    for item in report.graphs:
        where = {"cpu": "CPU", "npu": "NPU"}.get(item.place, item.place)
        out.print(Text(f"{'runs on':<8} {where:<{_CHECK_WIDTH}} {item.model} version {item.version}: {item.graph}"))
    total = f"{report.problems} problems, {report.warnings} warnings for a server on --device {report.device}"
    out.print(Text(total, style="bold"))
