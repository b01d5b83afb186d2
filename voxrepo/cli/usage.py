"""What commands check before they ask a server for work."""

from __future__ import annotations

import os
from pathlib import Path

from voxrepo_client import VoxrepoClientError, list_voices


class UsageError(Exception):
    """The command line is wrong; nothing has been asked from the server."""


def check_writable(path: Path, option: str) -> None:
    """Find out now, rather than after minutes of work, that a file cannot be written.

    Args:
        path: the file; replaced if it exists.
        option: that names it, for the message.

    Raises:
        UsageError: it is a folder, its folder does not exist, or it may not be written.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give {option} a file name")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist; create it first")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} may not be written; choose another place with {option}")


def only_voice(url: str | None, timeout_s: float | None) -> str:
    """The name of the server's voice, where it has exactly one that is ready.

    Raises:
        UsageError: it has several.
        VoxrepoClientError: it has none, or the server failed.
    """
    names = [voice.name for voice in list_voices(url, timeout_s=timeout_s)]
    if len(names) == 1:
        return names[0]
    if not names:
        raise VoxrepoClientError("the server has no voice that is ready; see `voxrepo status`")
    raise UsageError(f"the server has {len(names)} voices; choose one with --voice: {', '.join(names)}")
