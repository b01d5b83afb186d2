"""The controller as a process: waits for the first rollout, then looks again and again until it is told to end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from voxrepo.repository.layout import Layout
from voxrepo.rollout.controllers import SignOfLife, this_process
from voxrepo.rollout.plan import RolloutFolder
from voxrepo_contract.errors import VoxrepoError

if TYPE_CHECKING:
    from voxrepo.rollout.controller import Controller

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 0.25
IDLE_INTERVAL_S = 0.5
NICENESS = 10
"""Requests come first. A decision that is a moment later does no harm."""


def controller_command(layout: Layout) -> list[str]:
    """The command line of the controller of a root."""
    return [sys.executable, "-m", "voxrepo.rollout", f"--root={layout.root}"]


def run_until_signal(layout: Layout) -> None:
    """Run the controller in the main thread until SIGINT or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run_controller(layout, stop)


def run_controller(layout: Layout, stop: threading.Event) -> None:
    """Run until ``stop`` is set.

    As long as there was no rollout, one file is looked for twice a second, and none but its sign of life is written.

    Args:
        layout: of the root.
        stop: ends it.
    """
    os.nice(max(NICENESS - os.nice(0), 0))
    folder = RolloutFolder(layout.rollouts)
    sign = SignOfLife(folder, this_process())
    controller: Controller | None = None
    complaint = ""
    log.info("%s: controller of %s", sign.sign.holder, layout.root)
    try:
        while not stop.is_set():
            sign.renew(time.time())
            try:
                if controller is None and folder.database.exists():
                    controller = _controller(layout, sign.sign.holder)
                if controller is not None:
                    controller.step()
                complaint = ""
            except (VoxrepoError, OSError) as error:  # a full disk, above all; voices go on as they are
                if str(error) != complaint:
                    complaint = str(error)
                    log.error("nothing is decided until this is put right: %s", error)
            stop.wait(LOOK_INTERVAL_S if controller is not None and controller.is_busy else IDLE_INTERVAL_S)
    finally:
        if controller is not None:
            controller.close()
        sign.remove()


def _controller(layout: Layout, holder: str) -> Controller:
    from voxrepo.rollout.controller import Controller  # with numpy and more: nobody needs it before a first rollout

    return Controller(layout, holder)
