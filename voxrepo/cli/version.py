"""``voxrepo version``: versions of a voice's stages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from voxrepo.cli.output import JsonOption, RootOption, StateOption, console, layout_of, print_json, shows_errors
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo.supervisor.device import Asked
from voxrepo.versions.names import parse_pins, parse_ref, parse_stage, parse_version
from voxrepo_contract import yamlfile
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.names import is_version_name

if TYPE_CHECKING:
    from voxrepo.versions.add import AddedVersion
    from voxrepo.versions.scores import Scores

app = typer.Typer(no_args_is_help=True, help="Versions of a voice's stages: add, list, show, compare, remove.")

VersionArgument = Annotated[
    str, typer.Argument(metavar="VOICE.stage@version", help="Such as en-joe.vocoder@2.", show_default=False)
]


@app.command()
@shows_errors
def add(
    stage: Annotated[
        str, typer.Argument(metavar="VOICE.stage", help="The stage that gets a new version.", show_default=False)
    ],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE | FOLDER",
            help="A folder with stage.yaml and its files; or a graph (.onnx, .om) or another file that takes the place "
            "of one of the current version, or a folder of such files.",
            show_default=False,
        ),
    ],
    graph: Annotated[
        str | None, typer.Option("--graph", help="The graph that a file is, where its name and tensors do not say it.")
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="stage=version",
            help="Version of another stage that it is made for.",
            show_default="the voice's",
        ),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Stored in provenance.")] = "",
    smoke: Annotated[bool, typer.Option("--smoke/--no-smoke", help="Let it speak before it is taken.")] = True,
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts",
            metavar="FILE.txt",
            help="What it says then, one text a line.",
            show_default="ten texts of the voice's language",
        ),
    ] = None,
    transcribe: Annotated[
        bool, typer.Option("--transcribe", help="Let a recogniser listen too (extra 'asr'): error rates.")
    ] = False,
    engine: Annotated[Path | None, typer.Option("--engine", help="Another tritonserver than the wheel's.")] = None,
    device: Annotated[
        Asked,
        typer.Option(
            "--device",
            help="What graphs for an NPU are tried on. auto: an NPU; where none works they are refused.",
        ),
    ] = "auto",
    worker_python: Annotated[
        Path | None, typer.Option("--worker-python", help="Python of device workers.", show_default="this one")
    ] = None,
    emulator_settings: Annotated[
        Path | None, typer.Option("--emulator-settings", help="As in serve; for an OM of another chip, say.")
    ] = None,
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Add a version of a stage; nothing serves it until a rollout or voice.yaml says so.

    It is checked against its neighbours and, in an engine of its own, says the same texts as the current version.
    """
    from voxrepo.versions.add import AddRequest, add_version
    from voxrepo.versions.smoke import SmokeOptions
    from voxrepo.versions.texts import texts_for

    layout = layout_of(root, None)
    ref = parse_stage(stage, layout.voice_names())
    options = None
    if smoke:
        spec = read_voice(layout, ref.voice)
        options = SmokeOptions(
            texts_for(spec, texts), engine, device, worker_python, emulator_settings, transcribe=transcribe
        )
    elif texts is not None or transcribe:
        raise InvalidArgument("--texts and --transcribe say how the version is tried, and --no-smoke that it is not")
    request = AddRequest(ref, source, command_line(), graph, parse_pins(beside or []), note, options)
    with shown_progress("adding") as progress:
        added = add_version(layout, request, progress)
    _report(added, as_json)


def command_line() -> str:
    """The command as given, for provenance; the program without its folder."""
    return shlex.join(["voxrepo", *sys.argv[1:]])


@contextmanager
def shown_progress(task_name: str) -> Iterator[Callable[[str, float], None]]:
    """A bar on a terminal, nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(task_name, total=1.0)
        yield lambda text, share: bar.update(task, description=text, completed=share)


def _report(added: AddedVersion, as_json: bool) -> None:
    if as_json:
        print_json(added.summary())
        return
    if added.scores is not None:
        console.print(scores_table(f"{added.ref.model}: what was measured", added.version, added.current, added.scores))
        for warning in added.scores.warnings:
            console.print(f"warning: {warning}", soft_wrap=True, markup=False)
    console.print(f"wrote {added.path}", soft_wrap=True, markup=False)
    console.print(
        f"{added.ref.voice} still has version {added.current}; a rollout brings it to version {added.version}",
        soft_wrap=True,
        markup=False,
    )


def scores_table(title: str, version: int, current: int, scores: Scores) -> Table:
    """Scores of two versions side by side."""
    table = Table(title=f"{title} on {scores.texts} texts")
    table.add_column("metric")
    table.add_column(f"version {version}", justify="right")
    table.add_column(f"version {current}", justify="right")
    for name, value in scores.metrics.items():
        table.add_row(name, f"{value:g}", f"{scores.current[name]:g}" if name in scores.current else "")
    return table


@app.command("list")
@shows_errors
def list_(
    what: Annotated[
        str | None, typer.Argument(metavar="[VOICE[.stage]]", help="All voices by default.", show_default=False)
    ] = None,
    root: RootOption = Path(),
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the versions that are there, and who uses them."""
    from voxrepo.versions.listing import list_versions

    layout = layout_of(root, state)
    names = layout.voice_names()
    ref = None if what is None else parse_ref(what, names)
    if ref is not None and ref.version is not None:
        raise InvalidArgument(f"{what!r} names one version; `voxrepo version show {what}` shows it")
    found = list_versions(layout, names if ref is None else [ref.voice], None if ref is None else ref.stage)
    if as_json:
        print_json([info.summary() for info in found])
        return
    table = Table()
    for heading in ("stage", "version", "MiB", "used by", "made from", "spectral distance"):
        is_number = heading in {"version", "MiB", "spectral distance"}
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=heading == "stage")
    for info in found:
        distance = info.metrics.get("mel_cepstral_distance_db")
        cells = (
            info.ref.model,
            str(info.version),
            f"{info.size_bytes / 2**20:.1f}",
            "; ".join(info.used_by),
            info.trouble or info.source,
            "" if distance is None else f"{distance:.2f} dB",
        )
        table.add_row(*map(Text, cells))  # what is in brackets would be taken for markup
    Console().print(table)


@app.command()
@shows_errors
def show(
    version: VersionArgument, root: RootOption = Path(), state: StateOption = None, as_json: JsonOption = False
) -> None:
    """Show one version: its stage.yaml, its size and who uses it."""
    from voxrepo.versions.listing import version_info

    layout = layout_of(root, state)
    ref, number = parse_version(version, layout.voice_names())
    info = version_info(layout, ref, number)
    if as_json:
        spec = None if info.spec is None else info.spec.model_dump(mode="json", exclude_none=True)
        print_json({**info.summary(), "stage_yaml": spec})
        return
    typer.echo(f"# {layout.version_dir(ref.model, number)}")
    typer.echo(f"# {info.size_bytes} bytes; used by: {'; '.join(info.used_by) or 'nobody'}")
    if info.spec is None:
        typer.echo(f"# {info.trouble}")
    else:
        typer.echo(yamlfile.dump(info.spec), nl=False)


@app.command()
@shows_errors
def diff(
    one: VersionArgument,
    other: Annotated[
        str, typer.Argument(metavar="VOICE.stage@version | version", help="The other one.", show_default=False)
    ],
    root: RootOption = Path(),
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show in what two versions of a stage differ: files, tensors, options, interface, scores."""
    from voxrepo.versions.diff import diff_versions
    from voxrepo.versions.listing import version_info

    layout = layout_of(root, state)
    names = layout.voice_names()
    ref, number = parse_version(one, names)
    if is_version_name(other):
        other = f"{ref.model}@{other}"
    other_ref, other_number = parse_version(other, names)
    if other_ref.stage != ref.stage:
        raise InvalidArgument(f"{one!r} and {other!r} are different stages; compare versions of one")
    sides = version_info(layout, ref, number), version_info(layout, other_ref, other_number)
    found = diff_versions(layout, *sides)
    if as_json:
        print_json([{"what": entry.what, "one": entry.one, "other": entry.other} for entry in found])
        return
    if not found:
        console.print("they are equal", markup=False)
        return
    table = Table()
    for heading in ("", one, other):
        table.add_column(heading, overflow="fold")
    for entry in found:
        table.add_row(*map(Text, (entry.what, _shown(entry.one), _shown(entry.other))))
    Console().print(table)


@app.command()
@shows_errors
def remove(version: VersionArgument, root: RootOption = Path(), state: StateOption = None) -> None:
    """Remove a version that nobody uses."""
    from voxrepo.versions.remove import remove_version

    layout: Layout = layout_of(root, state)
    ref, number = parse_version(version, layout.voice_names())
    remove_version(layout, ref, number)
    console.print(f"removed {ref.model} version {number}", markup=False)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
