"""What one server of a root says of itself to the rollouts' controller."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time

from voxrepo.engine.workspace import server_key
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import STATUS_INTERVAL_S, ReplicaStatus, RolloutFolder, write_json
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.names import is_model_name

log = logging.getLogger(__name__)

MAX_HOST_CHARS = 60


def replica_name(layout: Layout, asked: str | None = None) -> str:
    """Name of a server among those of its root: the host's, and a hash of where its state is; or as asked.

    Raises:
        ConfigError: what is asked for cannot name a folder.
    """
    if asked is None:
        host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:MAX_HOST_CHARS].lstrip(".-") or "host"
        return f"{host}-{server_key(layout)}"
    if not is_model_name(asked):
        raise ConfigError(
            f"--replica-name is {asked!r}; use letters, digits, '_', '-' and '.' only, starting with a letter or digit"
        )
    return asked


class StatusFile:
    """Writes ``replicas/<name>/status.json`` when something has changed, and now and then as a sign of life.

    A thread goes on with the sign of life while the main thread waits for an engine to start: the server is not gone.

    Args:
        folder: of the rollouts.
        name: of this server.
    """

    def __init__(self, folder: RolloutFolder, name: str) -> None:
        self.name = name
        self._file = folder.status_file(name)
        self._last: ReplicaStatus | None = None
        self._next_s = float("-inf")
        self._is_failing = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._renew, name="sign-of-life", daemon=True)

    def start(self) -> None:
        """Begin with signs of life; they end with the process."""
        self._thread.start()

    def tell(self, status: ReplicaStatus, now_s: float) -> None:
        """Write it if it is due. A disk that is full is said once, and tried again.

        Args:
            status: as it is now; when and by whom is filled in here.
            now_s: time on the clock of ``time.monotonic``.
        """
        with self._lock:
            if self._last is not None and now_s < self._next_s:
                same = self._last.model_copy(update={"memory_free_bytes": status.memory_free_bytes})
                if status == same:
                    return
            self._write(status, now_s)

    def _write(self, status: ReplicaStatus, now_s: float) -> None:
        self._last, self._next_s = status, now_s + STATUS_INTERVAL_S
        try:
            write_json(self._file, status.model_copy(update={"updated_at": time.time(), "pid": os.getpid()}))
        except OSError as error:
            if not self._is_failing:
                log.warning("%s cannot be written, so that rollouts go on without this server: %s", self._file, error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _renew(self) -> None:
        while True:
            time.sleep(STATUS_INTERVAL_S)
            with self._lock:
                # the main thread comes first, as it knows what is new
                if self._last is not None and time.monotonic() > self._next_s + STATUS_INTERVAL_S:
                    self._write(self._last, time.monotonic())
