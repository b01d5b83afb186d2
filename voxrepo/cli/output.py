"""What all commands share: options, console and the way errors are shown."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text
from voxrepo_client import InvalidRequest, VoxrepoClientError

from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import VoxrepoError

console = Console(stderr=True, highlight=False)
"""Messages and progress go to stderr, results to stdout."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

RootOption = Annotated[
    Path,
    typer.Option(
        "--root", envvar="VOXREPO_ROOT", help="Folder with model_repository/ and ensembles/.", show_default="."
    ),
]
StateOption = Annotated[
    Path | None,
    typer.Option("--state-dir", envvar="VOXREPO_STATE_DIR", help="Run-time state.", show_default="<root>/.voxrepo"),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        envvar="VOXREPO_URL",
        help="grpc://host:port or http://host:port; without a scheme gRPC. Default: grpc://localhost:8001.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def layout_of(root: Path, state: Path | None) -> Layout:
    """The layout for ``--root`` and ``--state-dir``."""
    return Layout.of(root, state)


def print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    """Print a result as JSON on stdout."""
    data = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    try:
        if sys.stdout is None:
            raise OSError("it is closed")
        sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        sys.stdout.flush()
    except OSError as error:
        if sys.stdout is not None:
            # what it still holds would be tried, and fail, once more at the interpreter's end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise fail(f"stdout cannot be written: {error.strerror or error}") from error


def fail(message: str, code: int = EXIT_FAILED) -> typer.Exit:
    """Show an error in one sentence; returns the exception to raise."""
    console.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    return typer.Exit(code)


def fail_client(error: VoxrepoClientError) -> typer.Exit:
    """:func:`fail` for an error of the client library."""
    # without a code it was refused on this side: an option that cannot be sent
    usage = isinstance(error, InvalidRequest) and error.code is None
    return fail(error.message, EXIT_USAGE if usage else EXIT_FAILED)


def shows_errors(function: FunctionT) -> FunctionT:
    """Turn errors raised on purpose into one sentence and exit code 1; anything else keeps its traceback."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except VoxrepoError as error:
            raise fail(error.message) from error

    return wrapped  # type: ignore[return-value]
