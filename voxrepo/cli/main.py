"""The command line's root."""

from __future__ import annotations

from typing import Annotated

import typer

import voxrepo
from voxrepo.cli import (
    bench,
    controller,
    convert,
    doctor,
    gears,
    inspect,
    quality,
    rollout,
    say,
    serve,
    version,
    voice,
    voices,
)

app = typer.Typer(
    name="voxrepo",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    help="A versioned Triton model repository for text-to-speech on Ascend NPUs and CPUs.",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"voxrepo {voxrepo.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


app.command()(serve.serve)
app.command()(serve.status)
app.command()(serve.stop)
app.command()(say.say)
app.command()(voices.voices)
app.command()(convert.convert)
app.command()(gears.gears)
app.command()(inspect.inspect)
app.command()(quality.quality)
app.command()(doctor.doctor)
app.command()(controller.controller)
app.add_typer(voice.app, name="voice")
app.add_typer(version.app, name="version")
app.add_typer(rollout.app, name="rollout")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Entry point of the ``voxrepo`` script."""
    app()
