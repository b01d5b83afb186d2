"""New version directories: written beside, synced to disk, moved into place in one step."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from voxrepo.repository.graph_model import versions_of
from voxrepo.repository.publish import STAGING_PREFIX
from voxrepo_contract.errors import ConfigError


@contextmanager
def alone_in(repository: Path) -> Iterator[None]:
    """Keep other conversions out of a repository meanwhile; the kernel ends it with the process, however that ends.

    Raises:
        ConfigError: another one is at work, or the folder cannot be locked.
    """
    with ExitStack() as held:
        try:
            handle = os.open(repository, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                "another conversion is at work here, or a new version; start again when it is done",
                file=repository,
            ) from error
        except OSError as error:
            raise ConfigError(f"cannot be locked: {error.strerror}", file=repository) from error
        yield


@contextmanager
def staging_folder(repository: Path) -> Iterator[Path]:
    """A folder in ``repository`` that the engine does not see; gone afterwards, with all that was not moved away.

    Folders that a killed process left behind are removed first.
    """
    for left in repository.glob(f"{STAGING_PREFIX}*"):
        pid = left.name.removeprefix(STAGING_PREFIX).split("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{STAGING_PREFIX}{os.getpid()}-", dir=repository))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sync(path: Path) -> None:
    """Bring a file, or the list of names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Bring a folder and its files to disk."""
    for path in (*folder.iterdir(), folder):
        sync(path)


def existing_versions(model_dir: Path) -> list[int]:
    """Numbers of the version directories of a model, ascending."""
    return versions_of(model_dir) if model_dir.is_dir() else []


def next_version(model_dir: Path) -> int:
    """The number after the highest there is."""
    return max(existing_versions(model_dir), default=0) + 1
