"""``voxrepo convert``: graphs for a device."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from voxrepo.cli.convert_report import report_file, report_voice
from voxrepo.cli.output import EXIT_USAGE, JsonOption, RootOption, console, fail, layout_of, shows_errors
from voxrepo.importers.requirements import require_onnx

if TYPE_CHECKING:
    from voxrepo.convert.foreign import ConvertedFile
    from voxrepo.convert.plan import ShapeFlags
    from voxrepo.convert.voice import ConvertedVoice

_MODEL_FLAGS = ("--input-shape", "--input-shape-range", "--dynamic-batch", "--dynamic-dims", "--output")
_VOICE_FLAGS = ("--gears", "--lengths", "--exclude", "--calibration", "--force")


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("converting", total=1.0)
        yield lambda message, done: bar.update(task, description=message, completed=done)


@shows_errors
def convert(
    what: Annotated[
        str,
        typer.Argument(
            metavar="VOICE[.stage[@version]] | FILE.onnx",
            help="A voice (acoustic stage and vocoder), one stage of it, or any ONNX file.",
            show_default=False,
        ),
    ],
    soc: Annotated[
        str, typer.Option("--soc", help="Chip, as npu-smi info names it with the prefix Ascend.")
    ] = "Ascend910B3",
    target: Annotated[
        str,
        typer.Option(
            "--target",
            help="What to make: ascend (by atc, or a script for it), emulator, or onnx, which is served on a CPU.",
        ),
    ] = "emulator",
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="fp32; fp16; mixed: fp16 but for the layers that quality needs, which are found; int8: the same with "
            "8-bit weights.",
        ),
    ] = "fp32",
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="NODE",
            help="A layer that stays in full precision, as NODE or graph:NODE; may be given several times.",
            show_default=False,
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            metavar="FILE",
            help="Texts to take ranges of values from, one a line, as the phoneme ids of the voice.",
            show_default="the voice's own",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Take a lowered version though the quality gates refuse it; it is recorded."),
    ] = False,
    atc_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--atc-arg", metavar="--FLAG=VALUE", help="A further argument for atc; may be given several times."
        ),
    ] = None,
    gears: Annotated[
        str | None,
        typer.Option(
            "--gears",
            help='Sizes of a voice\'s graphs: auto, or "batch=1,4;ids=64,128;frames=64,256"; an axis that is left '
            "out is proposed.",
            show_default="auto",
        ),
    ] = None,
    lengths: Annotated[
        Path | None,
        typer.Option(
            "--lengths",
            metavar="FILE.csv",
            help="Record of segments to propose gears from, columns ids,frames.",
            show_default="the one that ships with voxrepo",
        ),
    ] = None,
    use: Annotated[
        bool | None,
        typer.Option(
            "--use/--no-use",
            help="Pin the new versions in voice.yaml.",
            show_default="use at fp32; at others no-use, to be tried as an arm of a rollout first",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.om", help="Of an ONNX file.")] = None,
    input_shape: Annotated[
        str | None,
        typer.Option("--input-shape", help='Of an ONNX file, in ATC\'s syntax: "x:1,-1,80;m:1~8,1~512".'),
    ] = None,
    input_shape_range: Annotated[
        str | None,
        typer.Option("--input-shape-range", help='The same, where -1 means any size: "x:[1~8,-1]".'),
    ] = None,
    dynamic_batch: Annotated[
        str | None, typer.Option("--dynamic-batch", help="Batch gears of an ONNX file: 1,2,4,8.")
    ] = None,
    dynamic_dims: Annotated[
        str | None,
        typer.Option("--dynamic-dims", help='Gears of an ONNX file, a size for each -1: "64,64;128,128".'),
    ] = None,
    input_format: Annotated[str, typer.Option("--input-format", help="Memory layout of an ONNX file's inputs.")] = "ND",
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Compile graphs for a device, after all the checks that its compiler makes.

    A voice gets new versions of its stages, proved equal to those that they are made from, and pinned in voice.yaml.
    At a lower precision they are judged by the gates of `voxrepo quality` instead, and pinned with --use only. Where
    atc is missing, a folder with graphs, lists and a script is left, and what it makes comes back by
    `voxrepo version add`.

    Exit status: 0 done, 1 refused or failed, 2 wrong usage.
    """
    require_onnx("converting a graph")
    from voxrepo.convert.plan import ShapeFlags

    flags = ShapeFlags(input_shape, input_shape_range, dynamic_batch, dynamic_dims, input_format)
    is_file = what.endswith(".onnx") or Path(what).is_file()
    given = {
        "--input-shape": input_shape,
        "--input-shape-range": input_shape_range,
        "--dynamic-batch": dynamic_batch,
        "--dynamic-dims": dynamic_dims,
        "--output": output,
        "--gears": gears,
        "--lengths": lengths,
        "--use/--no-use": use,
        "--exclude": exclude or None,
        "--calibration": calibration,
        "--force": force or None,
    }
    foreign = (*_VOICE_FLAGS, "--use/--no-use") if is_file else _MODEL_FLAGS
    wrong = next((flag for flag in foreign if given[flag] is not None), None)
    if wrong is not None:
        kind = "a voice, and this is a file" if is_file else "an ONNX file, and this is a voice"
        raise fail(f"{wrong} belongs to {kind}", EXIT_USAGE)
    if is_file:
        if output is None:
            raise fail("give -o FILE.om, where the compiled graph goes", EXIT_USAGE)
        extra = tuple(atc_arg or ())
        report_file(_convert_file(Path(what), output, target, soc, precision, flags, extra), as_json)
        return
    choices = _Choices(
        target, soc, precision, gears or "auto", lengths, tuple(exclude or ()), calibration, force, tuple(atc_arg or ())
    )
    report_voice(_convert_voice(root, what, choices, use), as_json)


@dataclass(frozen=True)
class _Choices:
    """What was given for a voice."""

    target: str
    soc: str
    precision: str
    gears: str
    lengths: Path | None
    exclude: tuple[str, ...]
    calibration: Path | None
    force: bool
    atc_args: tuple[str, ...]

    def command(self, what: str) -> str:
        """The command line without paths of this machine."""
        options: list[tuple[str, str | None]] = [
            ("--target", self.target),
            ("--soc", self.soc),
            ("--precision", self.precision),
            ("--gears", self.gears if self.target != "onnx" else None),
            ("--lengths", None if self.lengths is None else self.lengths.name),
            *(("--exclude", node) for node in self.exclude),
            ("--calibration", None if self.calibration is None else self.calibration.name),
            *(("--atc-arg", text) for text in self.atc_args),
        ]
        return _command(what, options) + (" --force" if self.force else "")


def _convert_file(
    source: Path, output: Path, target: str, soc: str, precision: str, flags: ShapeFlags, extra: tuple[str, ...]
) -> ConvertedFile:
    from voxrepo.convert.foreign import convert_file
    from voxrepo.convert.soc import parse_soc
    from voxrepo.convert.target import find_target

    options = {
        "--target": target,
        "--soc": soc,
        "--precision": precision,
        "--input-shape": flags.input_shape,
        "--input-shape-range": flags.input_shape_range,
        "--dynamic-batch": flags.dynamic_batch,
        "--dynamic-dims": flags.dynamic_dims,
    }
    command = _command(source.name, [*options.items(), *(("--atc-arg", text) for text in extra)])
    with _progress() as progress:
        return convert_file(
            source,
            output,
            find_target(target),
            parse_soc(soc),
            flags,
            precision=precision,
            command=command,
            extra=extra,
            progress=progress,
        )


def _convert_voice(root: Path, what: str, choices: _Choices, use: bool | None) -> ConvertedVoice:
    from voxrepo.convert.gear_choice import parse_gears
    from voxrepo.convert.job import Job
    from voxrepo.convert.judging import gates_of
    from voxrepo.convert.precision.calibration import read_calibration
    from voxrepo.convert.precision.tiers import FP32, parse_precision
    from voxrepo.convert.records import SHIPPED_RECORD, read_record
    from voxrepo.convert.soc import parse_soc
    from voxrepo.convert.sources import parse_what
    from voxrepo.convert.target import find_target
    from voxrepo.convert.voice import convert_voice, front_end_of
    from voxrepo.repository.voice import read_voice

    layout = layout_of(root, None)
    parsed = parse_what(what, layout.voice_names())
    target = find_target(choices.target)
    precision = parse_precision(choices.precision)
    target.check_precision(precision)
    _, front_end = front_end_of(layout, read_voice(layout, parsed.voice))
    lengths, calibration = choices.lengths, choices.calibration
    job = Job(
        target=target,
        soc=parse_soc(choices.soc),
        precision=precision,
        gears=parse_gears(choices.gears),
        record=read_record(lengths or SHIPPED_RECORD),
        record_name="the record that ships with voxrepo" if lengths is None else lengths.name,
        longest_ids=front_end.options.max_segment_ids,
        command=choices.command(what),
        exclude=choices.exclude,
        calibration=None if calibration is None else read_calibration(calibration),
        force=choices.force,
        extra=choices.atc_args,
        judges=gates_of,
    )
    with _progress() as progress:
        return convert_voice(layout, parsed, job, use=precision == FP32 if use is None else use, progress=progress)


def _command(what: str, options: Iterable[tuple[str, str | None]]) -> str:
    """The command line without paths of this machine."""
    # flag=value: a value may begin with a dash
    given = [
        part
        for flag, value in options
        if value
        for part in ((f"{flag}={value}",) if value.startswith("-") else (flag, value))
    ]
    return shlex.join(["voxrepo", "convert", what, *given])
