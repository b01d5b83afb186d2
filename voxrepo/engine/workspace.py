"""A private folder, on a short plain path, through which the engine sees everything.

The engine cannot run from paths with blanks or non-ASCII characters, and a unix socket's path is limited to about
100 bytes; so repositories and backends are linked into a folder under the runtime directory, and the socket lies
there too. The folder is readable by its owner only: who cannot enter it cannot reach the engine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import voxrepo_contract
from voxrepo.engine.binary import EngineBinary
from voxrepo.engine.patience import LIBRARY_NAME, UNPATCHED_PATIENCE_S, lengthen_patience
from voxrepo.repository.layout import Layout, backends_folder
from voxrepo_contract.errors import ConfigError

_PLAIN = re.compile(r"\A[A-Za-z0-9_./-]+\Z")
MAX_BASE_CHARS = 60


def _base() -> Path:
    """First usable of the user's runtime directory and the temporary directory."""
    choices = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]  # noqa: S108  checked for its owner below
    for choice in choices:
        if (
            choice
            and _PLAIN.match(choice)
            and len(choice) <= MAX_BASE_CHARS
            and Path(choice).is_absolute()
            and Path(choice).is_dir()
            and os.access(choice, os.W_OK)
            and not os.statvfs(choice).f_flag & os.ST_NOEXEC
        ):
            return Path(choice)
    raise ConfigError(
        "no writable runtime directory with a short, plain ASCII path from which programs may be run (not noexec); "
        "set TMPDIR to one, e.g. /var/tmp"
    )


def server_key(layout: Layout) -> str:
    """Eight hex digits that tell the servers of one machine apart; the same at every start of one server.

    The host name is part of it, since containers that share the host's shared memory have equal paths.
    """
    place = os.fsencode(f"{socket.gethostname()}:{layout.state.resolve()}")
    return hashlib.sha256(place).hexdigest()[:8]


@dataclass(frozen=True)
class Workspace:
    """The engine's view of the file system.

    Attributes:
        path: the private folder.
        shm_prefix: prefix of the engine's shared memory regions.
    """

    path: Path
    shm_prefix: str

    @staticmethod
    def of(layout: Layout) -> Workspace:
        """The workspace of a server; nothing is created."""
        key = server_key(layout)
        return Workspace(_base() / f"voxrepo-{os.getuid()}" / key, f"voxrepo-{key}-")

    @property
    def backends(self) -> Path:
        """For ``--backend-directory``."""
        return self.path / "backends"

    @property
    def stubs(self) -> Path:
        """Where stubs say which version they run; emptied with the rest at each start of the engine."""
        return self.path / "stubs"

    @property
    def repositories(self) -> list[Path]:
        """For ``--model-repository``."""
        return [self.path / "model_repository", self.path / "ensembles"]

    @property
    def grpc_address(self) -> str:
        """For ``--grpc-address``; the engine appends ``:<port>`` to it, also for a unix socket."""
        return f"unix:{self.path / 'engine.sock'}"

    @property
    def grpc_target(self) -> str:
        """What a gRPC client connects to."""
        return f"{self.grpc_address}:1"

    def create(self, layout: Layout, binary: EngineBinary) -> float:
        """Build the folder anew.

        Returns:
            seconds without a sign of life after which this engine takes a stub for dead.

        Raises:
            ConfigError: the parent folder belongs to another user, or there is no room.
        """
        parent = self.path.parent
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot be made: {error.strerror}; remove what is there or set TMPDIR to a directory of yours",
                file=parent,
            ) from error
        facts = parent.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
            raise ConfigError("belongs to another user; remove it or set TMPDIR to a directory of yours", file=parent)
        parent.chmod(0o700)
        self.remove()
        patience_s = UNPATCHED_PATIENCE_S
        try:
            python_backend = self.backends / "python"
            python_backend.mkdir(parents=True)
            self.stubs.mkdir()
            for file in binary.python_backend:
                # copied: the engine refuses a backend library that is a link out of its directory
                copy = Path(shutil.copy2(file, python_backend / file.name))
                if copy.name == LIBRARY_NAME:
                    patience_s = lengthen_patience(copy)
            # the stub puts this directory on sys.path for every backend
            (python_backend / "voxrepo_contract").symlink_to(Path(voxrepo_contract.__file__).parent)
            for backend in sorted(backends_folder().iterdir()):
                if (backend / "model.py").is_file():
                    (self.backends / backend.name).symlink_to(backend)
            for link, target in zip(self.repositories, (layout.model_repository, layout.ensembles), strict=True):
                if target.is_dir():
                    link.symlink_to(target)
                else:
                    # the engine never gets ready without one, and a root may hold only voices or only other models
                    link.mkdir()
        except OSError as error:
            raise ConfigError(f"cannot be built: {error.strerror}", file=self.path) from error
        return patience_s

    def remove(self) -> None:
        """Remove the folder; links are not followed."""
        shutil.rmtree(self.path, ignore_errors=True)
