"""The rollouts' controller as a child of a server. It is one of those of the root; the lease says which one leads."""

from __future__ import annotations

import logging
from pathlib import Path

from voxrepo.repository.layout import Layout
from voxrepo.rollout.process import controller_command
from voxrepo.supervisor.child import Child
from voxrepo.supervisor.tending import Tending
from voxrepo_contract.errors import VoxrepoError

log = logging.getLogger(__name__)

NAME = "rollouts' controller"
STOP_TIMEOUT_S = 5.0


class ControllerChild:
    """Runs it, and starts it again with growing pauses. Voices are served with and without it.

    Args:
        layout: of the root.
        log_file: takes its output.
    """

    def __init__(self, layout: Layout, log_file: Path) -> None:
        self._layout = layout
        self._log_file = log_file
        self._child: Child | None = None
        self._tending = Tending(NAME, lambda: self._child, lambda: None, self._start)

    def start(self) -> None:
        """Start it; a failure is logged only."""
        try:
            self._start()
        except (VoxrepoError, OSError) as error:
            log.error("the %s did not start, and rollouts wait: %s", NAME, error)

    def _start(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._child = Child(NAME, controller_command(self._layout), self._log_file)

    def step(self, now_s: float) -> None:
        """Look after it once; waits for nothing.

        Args:
            now_s: time on the clock of ``time.monotonic``.
        """
        self._tending.step(now_s)

    def ask_to_end(self) -> None:
        """Let it end; does not wait."""
        if self._child is not None:
            self._child.ask_to_end()

    def stop(self) -> None:
        """Let it end, and wait a little."""
        if self._child is not None:
            self._child.stop(STOP_TIMEOUT_S)
