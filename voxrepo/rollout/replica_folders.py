"""The folders of the servers of a root: what each says of itself, and the removal of those that are long gone."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable

from voxrepo.rollout.plan import ReplicaStatus, RolloutFolder, read_json
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)

FORGET_S = 7 * 86_400.0
"""After its last sign of life a server does not come back under its name; in a cluster each start has a new one."""


class ReplicaFolders:
    """Reads ``replicas/<name>/status.json``.

    Args:
        folder: of the rollouts.
        clock: seconds since the epoch.
    """

    def __init__(self, folder: RolloutFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._complaints: dict[str, str] = {}

    def statuses(self) -> list[ReplicaStatus]:
        """Of all servers, living or not. One that cannot be read is said once, and passed over."""
        found = []
        for file in sorted(self._folder.replicas.glob("*/status.json")):
            name = file.parent.name
            try:
                status = read_json(file, ReplicaStatus)
                if status is not None and status.name != name:  # its folder was copied by hand
                    raise ConfigError(f"is of the server {status.name!r}", file=file)
            except ConfigError as error:
                if self._complaints.get(name) != error.message:
                    self._complaints[name] = error.message
                    log.error("a server is passed over: %s", error)
                continue
            if status is not None:
                self._complaints.pop(name, None)
                found.append(status)
        return found

    def remove_old(self) -> None:
        """Remove the folders of servers that are long gone, with what they left."""
        for status in self.statuses():
            folder = self._folder.replica(status.name)
            if self._clock() - status.updated_at > FORGET_S and folder.is_dir():
                log.info("the server %s is forgotten: it gave its last sign of life a week ago", status.name)
                shutil.rmtree(folder, ignore_errors=True)
