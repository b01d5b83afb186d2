"""``voxrepo voices``: what a running server can speak with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from voxrepo_client import VoiceInfo, VoxrepoClientError, list_voices

from voxrepo.cli.output import JsonOption, UrlOption, console, fail_client, print_json

_SHOWN_SPEAKERS = 4


def _table(voices: Sequence[VoiceInfo]) -> Table:
    table = Table("Voice", "Language", "Sample rate", "Speakers", "Characters", "Versions")
    for voice in voices:
        shown = ", ".join(voice.speakers[:_SHOWN_SPEAKERS])
        more = len(voice.speakers) - _SHOWN_SPEAKERS
        cells = (
            voice.name,
            voice.language or "",
            "" if voice.sample_rate_hz is None else f"{voice.sample_rate_hz} Hz",
            shown + (f" and {more} more" if more > 0 else ""),
            "" if voice.max_text_chars is None else f"up to {voice.max_text_chars}",
            ", ".join(f"{stage} {version}" for stage, version in voice.versions.items()),
        )
        # Text, since a name in brackets would be taken for markup
        table.add_row(*(Text(cell) for cell in cells))
    return table


def voices(
    url: UrlOption = None,
    timeout_s: Annotated[float, typer.Option(help="Limit for each call, in seconds.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """List the voices of a running server that are ready.

    Exit status: 0 done (also where there are none), 1 the server failed, 2 wrong usage.
    """
    try:
        found = list_voices(url, timeout_s=timeout_s)
    except VoxrepoClientError as error:
        raise fail_client(error) from error
    if as_json:
        print_json([dataclasses.asdict(voice) for voice in found])
    elif not found:
        console.print("no voice is ready; see `voxrepo status`")
    else:
        Console().print(_table(found))
