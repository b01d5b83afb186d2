"""``voxrepo say``: text to an audio file or to stdout, spoken by a running server."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from voxrepo_client import InvalidRequest, Speech, Voice, VoxrepoClientError, synthesize_long
from voxrepo_client.speech import FORMATS, format_of

from voxrepo.cli.explain import counted, explain_text
from voxrepo.cli.output import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    RootOption,
    UrlOption,
    console,
    fail,
    fail_client,
    print_json,
)
from voxrepo.cli.say_stream import RAW, STDOUT_FORMATS, stream_to
from voxrepo.cli.usage import UsageError, check_writable, only_voice
from voxrepo_contract.errors import VoxrepoError

STDIO = "-"


@dataclass(frozen=True)
class _Source:
    """The text and whether it may be cut into several requests (documents may, arguments not)."""

    text: str
    is_document: bool


@dataclass(frozen=True)
class _Target:
    """Where the audio goes; ``path`` is ``None`` for stdout."""

    path: Path | None
    format: str


def _decode(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not valid UTF-8 at byte {error.start}; convert it first") from error


def _read_source(text: str | None, file: Path | None) -> _Source:
    if text is not None and text != STDIO:
        if file is not None:
            raise UsageError("give the text either as an argument or with --file, not both")
        return _Source(text, is_document=False)
    if file is not None and text is None:
        try:
            return _Source(_decode(file.read_bytes(), str(file)), is_document=True)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if file is not None:
        raise UsageError("give the text either on stdin (-) or with --file, not both")
    # None: whoever started this process closed it
    if sys.stdin is None or (text is None and sys.stdin.isatty()):
        raise UsageError('no text; give it as an argument ("..."), with --file FILE, or on stdin')
    return _Source(_decode(sys.stdin.buffer.read(), "the text on stdin"), is_document=True)


def _choose_target(output: str | None, format: str | None, as_json: bool, streams: bool) -> _Target:
    offered = (*FORMATS, RAW) if streams else tuple(FORMATS)
    if format is not None and format not in offered:
        hint = "; raw needs --stream" if format == RAW else ""
        raise UsageError(f"--format {format} is not offered; use one of {', '.join(offered)}{hint}")
    if output is None and as_json:
        raise UsageError("--json prints to stdout, so the audio needs a place: give -o FILE")
    if output is None or output == STDIO:
        if sys.stdout is None:
            raise UsageError("stdout is closed; give -o FILE")
        if sys.stdout.isatty():
            raise UsageError("audio is not written to a terminal; give -o FILE, or redirect stdout")
        if streams:
            if format is not None and format not in STDOUT_FORMATS:
                raise UsageError(f"--stream writes {' or '.join(STDOUT_FORMATS)} to stdout, not {format}; give -o FILE")
            return _Target(None, format or RAW)
        return _Target(None, format or "wav")
    path = Path(output)
    try:
        chosen = format or format_of(path)
    except InvalidRequest as error:
        raise UsageError(f"{error} with --format") from error
    check_writable(path, "-o")
    return _Target(path, chosen)


def _refuse_with_explain(output: str | None, format: str | None) -> None:
    for option, value in (("-o", output), ("--format", format)):
        if value is not None:
            raise UsageError(f"--explain makes no audio; leave {option} out")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A spinner with the elapsed time on stderr, and a bar where the text takes several requests."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("speaking", total=None)

        def advance(done_chars: int, total_chars: int) -> None:
            if 0 < done_chars < total_chars or progress.tasks[0].total is not None:
                progress.update(
                    task,
                    completed=done_chars,
                    total=total_chars,
                    description=f"{done_chars} of {total_chars} characters",
                )

        yield advance


def _write(speech: Speech, target: _Target) -> None:
    if target.path is not None:
        speech.write(target.path, target.format)
        return
    speech.write(sys.stdout.buffer, target.format)
    sys.stdout.buffer.flush()


@dataclass(frozen=True)
class _Spoken:
    """What is told at the end; ``versions`` of each request, ``note`` and ``times`` of a stream."""

    duration_s: float
    sample_rate_hz: int
    seed: int | None
    versions: tuple[dict[str, int], ...]
    dropped: dict[str, int]
    elapsed_s: float
    note: str = ""
    times: dict[str, Any] = field(default_factory=dict)


def _speak(voice: Voice, text: str, target: _Target, options: dict[str, Any]) -> _Spoken:
    start_s = time.perf_counter()
    with _progress() as advance:
        speech, parts = synthesize_long(voice, text, on_progress=advance, **options)
    elapsed_s = time.perf_counter() - start_s
    _write(speech, target)
    versions = tuple(part.versions for part in parts)
    return _Spoken(speech.duration_s, speech.sample_rate_hz, speech.seed, versions, speech.dropped, elapsed_s)


def _stream(voice: Voice, text: str, target: _Target, options: dict[str, Any]) -> _Spoken:
    streamed = stream_to(target.path, target.format, voice, text, **options)
    return _Spoken(
        streamed.timing.audio_s,
        streamed.sample_rate_hz,
        streamed.seed,
        streamed.versions,
        streamed.dropped,
        streamed.timing.arrivals_s[-1],
        streamed.sentence(),
        streamed.summary(),
    )


def _report(spoken: _Spoken, voice: str, text_chars: int, target: _Target, as_json: bool) -> None:
    if any(versions != spoken.versions[0] for versions in spoken.versions):
        console.print("the voice changed its versions while it spoke; run again for one voice", soft_wrap=True)
    if spoken.dropped:
        console.print(f"left out: {counted(spoken.dropped)}", soft_wrap=True)
    if spoken.note and not as_json:
        console.print(spoken.note, soft_wrap=True)
    if as_json:
        summary = {
            "voice": voice,
            "path": None if target.path is None else str(target.path),
            "format": target.format,
            "duration_s": round(spoken.duration_s, 6),
            "sample_rate_hz": spoken.sample_rate_hz,
            "seed": spoken.seed,
            "versions": spoken.versions[-1],
            "dropped": spoken.dropped,
            "text_chars": text_chars,
            "requests": len(spoken.versions),
            "elapsed_s": round(spoken.elapsed_s, 6),
            **spoken.times,
        }
        if target.path is None:
            typer.echo(json.dumps(summary), err=True)
        else:
            print_json(summary)


def say(
    text: Annotated[
        str | None, typer.Argument(help="Text to speak; - or nothing: read it from stdin.", show_default=False)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Audio file; - for stdout. An existing file is replaced."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read the text from a UTF-8 file.")
    ] = None,
    voice: Annotated[str | None, typer.Option(help="Voice; may be left out where the server has only one.")] = None,
    url: UrlOption = None,
    speed: Annotated[float, typer.Option(help="0.25 to 4; 2 is twice as fast.")] = 1.0,
    speaker: Annotated[str | None, typer.Option(help="Speaker of a voice that has several.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, text and versions: same audio.")] = None,
    noise_scale: Annotated[float | None, typer.Option(help="0 to 2, variation of the sound.")] = None,
    noise_w_scale: Annotated[float | None, typer.Option(help="0 to 2, variation of the rhythm.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="wav, flac, ogg (Vorbis) or mp3, with --stream also raw. Default: by the suffix of the file, wav on "
            "stdout (raw with --stream).",
        ),
    ] = None,
    normalise: Annotated[
        bool,
        typer.Option(
            "--normalise/--no-normalise", help="Off: read as written, without rules for numbers, dates or markup."
        ),
    ] = True,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Speak nothing; print how the voice in --root reads the text, step by step. No server."
        ),
    ] = False,
    root: RootOption = Path(),
    timeout_s: Annotated[float | None, typer.Option(help="Limit for each request, in seconds.")] = None,
    streams: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Write each piece as soon as it is made; stdout gets raw 16-bit mono PCM, or wav with --format wav, "
            "so that `voxrepo say --stream --format wav ... | aplay` plays at once. Times are told on stderr.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as JSON (on stderr if the audio goes to stdout).")
    ] = False,
) -> None:
    """Speak a text and write the audio.

    A text given as an argument is one request; if it exceeds the voice's limit, the server says so. A document from
    --file or stdin that exceeds it is cut at paragraphs, sentences or words into several requests, spoken in order with
    one seed and joined. Characters that were not spoken are counted in a note on stderr.

    Exit status: 0 done, 1 the server or the writing failed, 2 wrong usage.
    """
    try:
        source = _read_source(text, file)
        if explain:
            _refuse_with_explain(output, format)
            explain_text(source.text, voice, root, normalise=normalise, as_json=as_json)
            return
        target = _choose_target(output, format, as_json, streams)
        name = voice if voice is not None else only_voice(url, timeout_s)
        options: dict[str, Any] = {
            # an argument is sent whole, whatever its length
            "max_text_chars": None if source.is_document else max(1, len(source.text)),
            "speed": speed,
            "speaker": speaker,
            "seed": seed,
            "noise_scale": noise_scale,
            "noise_w_scale": noise_w_scale,
            "normalise": None if normalise else False,
        }
        with Voice(name, url, timeout_s=timeout_s) as connected:
            spoken = (_stream if streams else _speak)(connected, source.text, target, options)
    except UsageError as error:
        raise fail(str(error), EXIT_USAGE) from error
    except VoxrepoClientError as error:
        raise fail_client(error) from error
    except VoxrepoError as error:  # of --explain
        raise fail(error.message) from error
    except BrokenPipeError:
        # the reader of stdout has gone; keep the interpreter from trying to flush once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_FAILED) from None
    except OSError as error:
        where = "stdout" if output in (None, STDIO) else str(output)
        raise fail(f"{where} cannot be written: {error.strerror or error}", EXIT_FAILED) from error
    except KeyboardInterrupt as error:
        raise fail("interrupted", EXIT_INTERRUPTED) from error
    _report(spoken, name, len(source.text), target, as_json)
