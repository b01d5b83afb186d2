"""``voxrepo gears``: which sizes a voice's graphs should be built for, and what that is worth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from voxrepo.cli.output import EXIT_USAGE, JsonOption, RootOption, console, fail, layout_of, print_json, shows_errors
from voxrepo.importers.requirements import require_onnx

if TYPE_CHECKING:
    from voxrepo.convert.voice_gears import VoiceGears


@shows_errors
def gears(
    what: Annotated[
        str,
        typer.Argument(metavar="VOICE[.stage[@version]]", help="A voice, or one stage of it.", show_default=False),
    ],
    texts: Annotated[
        Path | None,
        typer.Option("--texts", metavar="FILE", help="Texts, one a line, that the voice reads to find their lengths."),
    ] = None,
    lengths: Annotated[
        Path | None,
        typer.Option(
            "--lengths",
            metavar="FILE.csv",
            help="Record of segments, columns ids,frames.",
            show_default="the one that ships with voxrepo",
        ),
    ] = None,
    max_gears: Annotated[int, typer.Option("--max-gears", min=1, max=100, help="Gears per graph.")] = 24,
    memory_mb: Annotated[
        float | None, typer.Option("--memory-mb", help="Device memory of each graph, weights included.", min=0.001)
    ] = None,
    call_ms: Annotated[
        float | None, typer.Option("--call-ms", help="Time of a call besides its work, in ms; with --unit-us.", min=0)
    ] = None,
    unit_us: Annotated[
        float | None, typer.Option("--unit-us", help="Time per row and id or frame, in us; with --call-ms.", min=1e-6)
    ] = None,
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Plan gears from a record or from texts, and compare them with powers of two, one gear and no padding.

    Nothing is changed; `voxrepo convert` plans in the same way.

    Exit status: 0 done, 1 refused or failed, 2 wrong usage.
    """
    require_onnx("planning gears")
    if texts is not None and lengths is not None:
        raise fail("give --texts or --lengths, not both", EXIT_USAGE)
    if (call_ms is None) != (unit_us is None):
        raise fail("--call-ms and --unit-us belong together: a call costs the one, and the other for each unit", 2)
    for flag, number in (("--memory-mb", memory_mb), ("--call-ms", call_ms), ("--unit-us", unit_us)):
        if number is not None and not math.isfinite(number):
            raise fail(f"{flag} {number} is not a finite number; leave the flag out", EXIT_USAGE)
    from voxrepo.convert.call_cost import NPU_VOCODER, LinearCost
    from voxrepo.convert.voice_gears import plan_voice

    cost = NPU_VOCODER if call_ms is None or unit_us is None else LinearCost(call_ms / 1e3, unit_us / 1e6)
    limit_bytes = None if memory_mb is None else int(memory_mb * 1e6)
    planned = plan_voice(
        layout_of(root, None),
        what,
        texts=texts,
        lengths=lengths,
        max_gears=max_gears,
        limit_bytes=limit_bytes,
        cost=cost,
    )
    _report(planned, as_json)


def _report(planned: VoiceGears, as_json: bool) -> None:
    if as_json:
        print_json(planned.summary())
        return
    table = Table(title=f"{planned.voice}: {planned.segments} segments from {planned.source}")
    for heading in ("graph", "way", "gears", "ms per unit", "padded work", "device memory MB", "plan saves"):
        table.add_column(heading, justify="left" if heading in {"graph", "way"} else "right")
    for name, plan in planned.plans.items():
        for way in plan.ways:
            table.add_row(
                name,
                way.name,
                str(len(way.gears) or "-"),
                f"{way.expected.unit_s * 1e3:.3f}",
                f"{way.expected.padding:.3f}",
                f"{way.memory_bytes / 1e6:.1f}" if way.gears else "-",
                "" if way.name == "planned" else f"{100 * plan.saving(way.name):.1f} %",
            )
    console.print(table, markup=False)
    for name, plan in planned.plans.items():
        listed = ", ".join(f"{gear.batch}x{gear.length}" for gear in plan.gears)
        console.print(f"{name} (rows x length): {listed}", soft_wrap=True, markup=False)
    console.print(planned.note, soft_wrap=True, markup=False)
