"""Where things are under a voxrepo root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import voxrepo

VOICE_FILE = "voice.yaml"
CONFIG_FILE = "config.pbtxt"
ARM_FILE = "arm.yaml"
"""Marks a folder in ``ensembles/`` as an arm of a voice, which belongs to a rollout and is no model of its own."""


@dataclass(frozen=True)
class Layout:
    """The folders of one voxrepo root.

    Attributes:
        root: folder that holds ``model_repository/`` and ``ensembles/``.
        state: run-time state of the server of this root (lock, logs, table); not shared between servers.
    """

    root: Path
    state: Path

    @staticmethod
    def of(root: Path, state: Path | None = None) -> Layout:
        """Layout of ``root``; the state folder defaults to ``<root>/.voxrepo``."""
        root = root.expanduser().absolute()
        return Layout(root, (state or root / ".voxrepo").expanduser().absolute())

    @property
    def model_repository(self) -> Path:
        """Triton repository 1: stages and other models."""
        return self.root / "model_repository"

    @property
    def ensembles(self) -> Path:
        """Triton repository 2: what clients call."""
        return self.root / "ensembles"

    @property
    def rollouts(self) -> Path:
        """State of the rollouts, shared by all servers of the root wherever each keeps its own state."""
        return self.root / ".voxrepo" / "rollouts"

    def voice_file(self, voice: str) -> Path:
        """``voice.yaml`` of a voice."""
        return self.ensembles / voice / VOICE_FILE

    def version_dir(self, model: str, version: int) -> Path:
        """Directory of one version of a model."""
        return self.model_repository / model / str(version)

    def voice_names(self) -> list[str]:
        """Names of the folders in ``ensembles/`` that hold a ``voice.yaml``."""
        if not self.ensembles.is_dir():
            return []
        return sorted(folder.name for folder in self.ensembles.iterdir() if (folder / VOICE_FILE).is_file())


def emulator_folder() -> Path:
    """The folder to put on a Python's path for ``import acl`` to give the emulator: in the wheel, else the source tree.

    Raises:
        FileNotFoundError: neither is there.
    """
    return _installed("emulator", "acl/__init__.py", "the emulator")


def backends_folder() -> Path:
    """The backends that belong to this installation: in the wheel, else in the source tree.

    Raises:
        FileNotFoundError: neither is there.
    """
    return _installed("backends", "ascend_om/model.py", "the ascend_om backend")


def _installed(folder: str, proof: str, what: str) -> Path:
    """A folder that comes with voxrepo, known by a file in it."""
    package = Path(voxrepo.__file__).parent
    for candidate in (package / f"_{folder}", package.parent / folder):
        if (candidate / proof).is_file():
            return candidate
    raise FileNotFoundError(f"{what} is missing from this installation of voxrepo; install it again")
