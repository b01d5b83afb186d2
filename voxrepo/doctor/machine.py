"""The machine that is examined: files below a root, environment, programs, limits. Tests give another root."""

from __future__ import annotations

import contextlib
import grp
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_MAX_TEXT_BYTES = 1 << 20


@dataclass(frozen=True)
class Ran:
    """What a program did.

    Attributes:
        exit_code: None if it was stopped at its time limit.
        stdout: its output.
        stderr: its errors.
    """

    exit_code: int | None
    stdout: str
    stderr: str = ""


Runner = Callable[[Sequence[str], Mapping[str, str], float], "Ran | None"]
"""Runs a command with an environment and a limit in seconds; None if there is no such program."""


def run_program(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Ran | None:
    """The :data:`Runner` of a real machine."""
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Ran(
            None, (error.stdout or b"").decode("utf-8", "replace"), (error.stderr or b"").decode("utf-8", "replace")
        )
    except OSError:
        return None
    return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def own_groups() -> frozenset[str]:
    """Names of the groups of this process."""
    names = set()
    for number in {os.getgid(), os.getegid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return frozenset(names)


def is_usable(path: Path) -> bool:
    """Whether this user may read and write a device node."""
    return os.access(path, os.R_OK | os.W_OK)


def free_bytes_at(path: Path) -> int | None:
    """Free bytes of the file system that holds ``path``; None if that cannot be told."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


@dataclass(frozen=True)
class Machine:
    """A machine, or a tree of files that looks like one.

    Attributes:
        root: root of its file system.
        environment: of the user.
        run: runs programs.
        usable: whether a device node may be used.
        free_bytes: free space at a path.
        groups: groups of the user.
        is_root: whether the user is root.
        os: e.g. ``linux``.
        cpu: e.g. ``aarch64``.
        python: interpreter of this program.
    """

    root: Path = Path("/")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    run: Runner = run_program
    usable: Callable[[Path], bool] = is_usable
    free_bytes: Callable[[Path], int | None] = free_bytes_at
    groups: frozenset[str] = field(default_factory=own_groups)
    is_root: bool = field(default_factory=lambda: os.geteuid() == 0)
    os: str = field(default_factory=lambda: platform.system().lower())
    cpu: str = field(default_factory=platform.machine)
    python: str = sys.executable

    def at(self, path: str | Path) -> Path:
        """Where an absolute path of the machine is."""
        return self.root / str(path).lstrip("/")

    def variable(self, *names: str) -> str:
        """The first of these variables that is set, "" if none is."""
        return next((self.environment[name] for name in names if self.environment.get(name)), "")

    def text(self, path: str | Path) -> str | None:
        """Content of a small text file; None if it cannot be read."""
        try:
            with self.at(path).open("rb") as stream:
                return stream.read(_MAX_TEXT_BYTES).decode("utf-8", "replace")
        except OSError:
            return None

    def values(self, path: str | Path) -> dict[str, str] | None:
        """A file of lines ``key=value``; keys in lower case; None if it cannot be read."""
        text = self.text(path)
        if text is None:
            return None
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {key.strip().lower(): value.strip().strip("[]\"'") for key, _, value in pairs}

    def names(self, folder: str, pattern: str) -> list[str]:
        """Names in a folder that match a pattern, sorted."""
        return sorted(path.name for path in self.at(folder).glob(pattern))
