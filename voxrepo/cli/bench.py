"""``voxrepo bench``: how fast a running server speaks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from voxrepo_client import Voice, VoxrepoClientError

from voxrepo.cli.bench_plot import check_plot, plot
from voxrepo.cli.bench_stream import TEXTS, StreamBench, measure, sentence, table
from voxrepo.cli.output import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    JsonOption,
    UrlOption,
    console,
    fail,
    fail_client,
    print_json,
    shows_errors,
)
from voxrepo.cli.usage import UsageError, check_writable, only_voice

app = typer.Typer(no_args_is_help=True, help="Measure a running server.")

MAX_STREAMS = 1024

TABLE_COLUMNS = 150
"""Width of the table where the output is no terminal."""


@app.callback()
def _root() -> None:
    pass


def _counts(streams: str) -> list[int]:
    counts: set[int] = set()
    for part in streams.split(","):
        if not (part.strip().isascii() and part.strip().isdigit() and 1 <= int(part) <= MAX_STREAMS):
            raise UsageError(
                f"--streams has {part.strip()!r}; give numbers from 1 to {MAX_STREAMS} with commas between, e.g. 1,4,8"
            )
        counts.add(int(part))
    return sorted(counts)


def _read_texts(path: Path) -> list[str]:
    try:
        texts = [text for line in path.read_text("utf-8-sig").splitlines() if (text := line.strip())]
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid UTF-8 at byte {error.start}; convert it first") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not texts:
        raise UsageError(f"{path} has no text; give one text a line")
    return texts


def _default_texts(voice: Voice, timeout_s: float) -> list[str]:
    language = voice.info(timeout_s).language
    if language is not None and language.partition("-")[0].lower() != "en":
        raise UsageError(f"{voice.name} speaks {language}; give texts in its language, one a line, with --texts FILE")
    return list(TEXTS)


@contextmanager
def _progress() -> Iterator[Progress]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield progress


def _show(bench: StreamBench) -> None:
    out = Console(width=None if Console().is_terminal else TABLE_COLUMNS, highlight=False)
    out.print(sentence(bench.alone), soft_wrap=True)
    out.print(table(bench))


@app.command()
@shows_errors
def stream(
    voice: Annotated[str | None, typer.Option(help="Voice; may be left out where the server has only one.")] = None,
    url: UrlOption = None,
    streams: Annotated[
        str, typer.Option(metavar="N,N,...", help="Streams at once, each number measured by itself.")
    ] = "1,2,4,8,16,32",
    texts: Annotated[
        Path | None,
        typer.Option(
            "--texts", metavar="FILE", help="UTF-8 file, one text a line. Default: English, about ten seconds each."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Streams measured one at a time, before any load.")] = 8,
    duration_s: Annotated[
        float,
        typer.Option(
            min=0.1, max=86400, help="Measured seconds for each number of streams; more where a stream takes long."
        ),
    ] = 8.0,
    warmup_s: Annotated[float, typer.Option(min=0.0, max=86400, help="Load before that, likewise.")] = 2.0,
    timeout_s: Annotated[float, typer.Option(help="Limit for each stream, in seconds.")] = 120.0,
    picture: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.png", help="Draw the numbers; needs the extra `bench` (matplotlib)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how a running server streams.

    First one stream at a time, a whole answer to the same text after each; then numbers of streams at once, each of
    which asks for its next text as soon as the last has ended. Pieces are taken as they come. The cold first piece is
    that of the first stream of this run on a new connection: start the server afresh for its very first. Streams that
    a full server refuses are counted and tried again.

    Exit status: 0 done, 1 the server failed or a stream did, 2 wrong usage.
    """
    try:
        counts = _counts(streams)
        if picture is not None:
            if picture.suffix.lower() != ".png":
                raise UsageError(f"--plot writes PNG files, {picture} is named otherwise; give it the suffix .png")
            check_writable(picture, "--plot")
            check_plot()
        spoken = None if texts is None else _read_texts(texts)
        name = voice if voice is not None else only_voice(url, timeout_s)
        with Voice(name, url) as connected:
            spoken = spoken or _default_texts(connected, timeout_s)
        with _progress() as progress:
            task = progress.add_task("", total=None)
            bench = asyncio.run(
                measure(
                    name,
                    spoken,
                    url=url,
                    counts=counts,
                    rounds=rounds,
                    duration_s=duration_s,
                    warmup_s=warmup_s,
                    timeout_s=timeout_s,
                    on_step=lambda step: progress.update(task, description=step),
                )
            )
    except UsageError as error:
        raise fail(str(error), EXIT_USAGE) from error
    except VoxrepoClientError as error:
        raise fail_client(error) from error
    except KeyboardInterrupt as error:
        raise fail("interrupted", EXIT_INTERRUPTED) from error
    if as_json:
        print_json(bench.summary())
    else:
        _show(bench)
    if picture is not None:
        try:
            plot(bench, picture)
        except OSError as error:
            raise fail(f"{picture} cannot be written: {error.strerror or error}") from error
    if bench.failed:
        raise fail("streams failed: " + ", ".join(f"{count} {kind}" for kind, count in sorted(bench.failed.items())))
