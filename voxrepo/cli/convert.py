"""``voxrepo convert``: graphs for a device."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from voxrepo.cli.output import EXIT_USAGE, JsonOption, RootOption, console, fail, layout_of, print_json, shows_errors
from voxrepo.importers.requirements import require_onnx

if TYPE_CHECKING:
    from voxrepo.convert.foreign import ConvertedFile
    from voxrepo.convert.plan import ShapeFlags
    from voxrepo.convert.voice import ConvertedVoice

_MODEL_FLAGS = ("--input-shape", "--input-shape-range", "--dynamic-batch", "--dynamic-dims", "--output")
_VOICE_FLAGS = ("--gears", "--lengths")


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
    target: Annotated[str, typer.Option("--target", help="What to make: emulator.")] = "emulator",
    precision: Annotated[str, typer.Option("--precision", help="As ATC's --precision_mode_v2.")] = "origin",
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
        typer.Option("--use/--no-use", help="Pin the new versions in voice.yaml.", show_default="use"),
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
    }
    foreign = (*_VOICE_FLAGS, "--use/--no-use") if is_file else _MODEL_FLAGS
    wrong = next((flag for flag in foreign if given[flag] is not None), None)
    if wrong is not None:
        kind = "a voice, and this is a file" if is_file else "an ONNX file, and this is a voice"
        raise fail(f"{wrong} belongs to {kind}", EXIT_USAGE)
    if is_file:
        if output is None:
            raise fail("give -o FILE.om, where the compiled graph goes", EXIT_USAGE)
        _report_file(_convert_file(Path(what), output, target, soc, precision, flags), as_json)
        return
    _report_voice(
        _convert_voice(root, what, target, soc, precision, gears or "auto", lengths, use is not False), as_json
    )


def _convert_file(
    source: Path, output: Path, target: str, soc: str, precision: str, flags: ShapeFlags
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
    command = _command(source.name, options)
    with _progress() as progress:
        return convert_file(
            source,
            output,
            find_target(target),
            parse_soc(soc),
            flags,
            precision=precision,
            command=command,
            progress=progress,
        )


def _convert_voice(
    root: Path, what: str, target: str, soc: str, precision: str, gears: str, lengths: Path | None, use: bool
) -> ConvertedVoice:
    from voxrepo.convert.gear_choice import parse_gears
    from voxrepo.convert.records import SHIPPED_RECORD, read_record
    from voxrepo.convert.soc import parse_soc
    from voxrepo.convert.sources import parse_what
    from voxrepo.convert.stage_conversion import Job
    from voxrepo.convert.target import find_target
    from voxrepo.convert.voice import convert_voice, front_end_of
    from voxrepo.repository.voice import read_voice

    layout = layout_of(root, None)
    parsed = parse_what(what, layout.voice_names())
    found = find_target(target)
    found.check_precision(precision)
    _, front_end = front_end_of(layout, read_voice(layout, parsed.voice))
    options = {"--target": target, "--soc": soc, "--precision": precision, "--gears": gears}
    options["--lengths"] = "" if lengths is None else lengths.name
    job = Job(
        target=found,
        soc=parse_soc(soc),
        precision=precision,
        gears=parse_gears(gears),
        record=read_record(lengths or SHIPPED_RECORD),
        record_name="the record that ships with voxrepo" if lengths is None else lengths.name,
        longest_ids=front_end.options.max_segment_ids,
        command=_command(what, options),
    )
    with _progress() as progress:
        return convert_voice(layout, parsed, job, use=use, progress=progress)


def _command(what: str, options: Mapping[str, str | None]) -> str:
    """The command line without paths of this machine."""
    given = [part for flag, value in options.items() if value for part in (flag, value)]
    return shlex.join(["voxrepo", "convert", what, *given])


def _report_file(converted: ConvertedFile, as_json: bool) -> None:
    if as_json:
        print_json(converted.summary())
        return
    built = converted.built
    table = Table(title=f"{built.kind}, {built.gears} gears" if built.gears else built.kind)
    for heading in ("", "tensor", "dtype", "dims"):
        table.add_column(heading)
    for side, tensors in (("in", built.inputs), ("out", built.outputs)):
        for tensor in tensors:
            table.add_row(side, tensor.name, tensor.dtype, ", ".join(map(str, tensor.dims)))
    console.print(table, markup=False)
    if converted.soc.note:
        console.print(f"note: {converted.soc.note}", soft_wrap=True, markup=False)
    console.print(f"wrote {built.file} for {converted.soc.name}, {converted.target} only", soft_wrap=True, markup=False)


def _report_voice(converted: ConvertedVoice, as_json: bool) -> None:
    if as_json:
        print_json(converted.summary())
        return
    table = Table(title=f"{converted.voice}: padded to gears, against the source at its true lengths")
    for heading in ("graph", "gears", "rows compared", "output", "largest difference"):
        table.add_column(heading, justify="right" if heading.endswith(("gears", "compared", "difference")) else "left")
    for version in converted.versions:
        for graph, figures in version.quality().items():
            name = f"{version.stage}@{version.version} {graph}"
            for output, difference in figures["max_diff"].items():
                table.add_row(name, str(figures["gears"]), str(figures["rows"]), output, f"{difference:.2e}")
    console.print(table)
    for version in converted.versions:
        said = "wrote" if version.made else "this conversion was there already:"
        console.print(f"{said} {version.path} from version {version.source_version}", soft_wrap=True, markup=False)
    for note in converted.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    _say_what_serves(converted)


def _say_what_serves(converted: ConvertedVoice) -> None:
    pins = ", ".join(f"{version.stage} {version.version}" for version in converted.versions)
    if not converted.used:
        console.print(
            f"voice.yaml is as it was; to serve {pins}, put the numbers there or convert again with --use",
            soft_wrap=True,
            markup=False,
        )
        return
    console.print(
        f"voice.yaml pins {pins}: `voxrepo serve --device emulator` serves them, with --device cpu they are refused",
        soft_wrap=True,
        markup=False,
    )
    back = [
        f"stages.{version.stage}.version: {version.source_version}"
        for version in converted.versions
        if version.source_version != version.version
    ]
    console.print(
        f"to go back to the CPU, set {' and '.join(back)} in ensembles/{converted.voice}/voice.yaml",
        soft_wrap=True,
        markup=False,
    )
