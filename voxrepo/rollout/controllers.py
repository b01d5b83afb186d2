"""Which controllers of a root there are. One of them leads, by the lease in the database; the others wait.

Each renews a file ``controllers/<key>.json``, before the first rollout, too, when there is no database and no lease. It
also tells whether the holder of the lease is dead, so that nobody waits for the lease to run out.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import time
from pathlib import Path

import psutil

from voxrepo.rollout.finite import FiniteModel
from voxrepo.rollout.plan import RolloutFolder, read_json, write_json
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)

SIGN_INTERVAL_S = 2.0
SIGN_LIMIT_S = 15.0
"""After which a controller is taken for gone; likewise one whose sign is this far ahead: the clock was set back."""
_CLOCK_SLACK_S = 1.0
"""By which the kernel's start time of a process may differ between two readings."""


class ControllerSign(FiniteModel):
    """What a controller says of itself.

    Attributes:
        holder: its name in the lease and in the log.
        pid: of the process, in its own namespace.
        started_at: start of the process, seconds since the epoch.
        place: the boot and the process namespace in which ``pid`` means something.
    """

    holder: str
    pid: int
    started_at: float
    place: str


def _place() -> str:
    """Something that differs between machines, their boots, and containers."""
    facts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with contextlib.suppress(OSError):
        facts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.blake2b("\0".join(facts).encode(), digest_size=8).hexdigest()


def this_process() -> ControllerSign:
    """The sign of the process that asks."""
    place, started_at = _place(), psutil.Process().create_time()
    short = hashlib.blake2b(f"{place} {os.getpid()} {started_at}".encode(), digest_size=3).hexdigest()
    holder = f"pid {os.getpid()} on {socket.gethostname()} ({short})"
    return ControllerSign(holder=holder, pid=os.getpid(), started_at=started_at, place=place)


def has_ended(sign: ControllerSign) -> bool:
    """Whether a controller is known to be dead; False if that cannot be seen from here."""
    if sign.place != _place():
        return False
    try:
        process = psutil.Process(sign.pid)
        is_same = abs(process.create_time() - sign.started_at) < _CLOCK_SLACK_S
        return not is_same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


class SignOfLife:
    """The file of one controller.

    Args:
        folder: of the rollouts.
        sign: of this controller.
    """

    def __init__(self, folder: RolloutFolder, sign: ControllerSign) -> None:
        self.sign = sign
        self._file = _file(folder, sign.holder)
        self._next_s = float("-inf")
        self._is_failing = False

    def renew(self, now_s: float) -> None:
        """Renew it if it is due. A disk that is full is said once, and tried again.

        Args:
            now_s: seconds since the epoch.
        """
        if self._next_s - SIGN_INTERVAL_S <= now_s < self._next_s:  # else the clock was set back
            return
        self._next_s = now_s + SIGN_INTERVAL_S
        try:
            try:
                os.utime(self._file, (now_s, now_s))  # writes nothing but two times
            except FileNotFoundError:
                write_json(self._file, self.sign)
                os.utime(self._file, (now_s, now_s))
        except OSError as error:
            if not self._is_failing:
                log.warning("%s cannot be written, so that no rollout can be started: %s", self._file, error)
            self._is_failing = True
        else:
            self._is_failing = False

    def remove(self) -> None:
        """The controller ends."""
        with contextlib.suppress(OSError):
            self._file.unlink()


def living_controllers(folder: RolloutFolder, now_s: float | None = None) -> list[ControllerSign]:
    """Controllers of a root that live, whether they lead or wait; empty if nobody would carry out a rollout.

    Args:
        folder: of the rollouts.
        now_s: seconds since the epoch; now if not given.
    """
    now_s = time.time() if now_s is None else now_s
    found = []
    for file in sorted(folder.controllers.glob("*.json")):
        with contextlib.suppress(OSError, ConfigError):  # removed meanwhile, or of another version of this program
            if abs(now_s - file.stat().st_mtime) > SIGN_LIMIT_S:
                continue
            sign = read_json(file, ControllerSign)
            if sign is not None and not has_ended(sign):
                found.append(sign)
    return found


def read_sign(folder: RolloutFolder, holder: str) -> ControllerSign | None:
    """What a controller said of itself, dead or alive; None if it is not known."""
    try:
        return read_json(_file(folder, holder), ControllerSign)
    except ConfigError:
        return None


def remove_old_signs(folder: RolloutFolder) -> None:
    """Forget controllers that ended without removing theirs."""
    for file in folder.controllers.glob("*.json"):
        with contextlib.suppress(OSError, ConfigError):
            sign = read_json(file, ControllerSign)
            if sign is not None and has_ended(sign):
                file.unlink(missing_ok=True)


def _file(folder: RolloutFolder, holder: str) -> Path:
    return folder.controllers / f"{hashlib.blake2b(holder.encode(), digest_size=8).hexdigest()}.json"
