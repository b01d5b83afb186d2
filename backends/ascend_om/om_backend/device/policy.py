"""What follows from a fault: pure functions and a counter, no clocks of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from om_backend.device.faults import Action, DeviceFault
from voxrepo_contract.errors import ConfigError, Internal, InvalidArgument, Unavailable, VoxrepoError


def run_error(fault: DeviceFault) -> VoxrepoError:
    """The error that answers a request whose run ended in ``fault``, when no repetition is left.

    The device's own text stays in the log: it can name paths and addresses.
    """
    if fault.action is Action.REQUEST:
        return InvalidArgument(fault.advice)
    where = fault.call if fault.code == 0 else f"{fault.call}: {fault.code} {fault.code_name}".rstrip()
    if fault.action is Action.FAIL:
        return Internal(f"{fault.advice} ({where})")
    what = {
        Action.RETRY: "the device was busy twice in a row",
        Action.REFUSE: "the device refused the run",
        Action.RELOAD: "the graph is loaded again",
        Action.RESTART: "the device worker restarts",
        Action.OUT_OF_SERVICE: "the device is out of service",
    }[fault.action]
    return Unavailable(f"{what}: {fault.advice} ({where})")


def load_error(fault: DeviceFault, file: Path) -> VoxrepoError:
    """The error that refuses a load which ended in ``fault``: the text in full, it goes to the operator."""
    text = str(fault).removeprefix(f"{file}: ")
    if fault.action in (Action.REFUSE, Action.REQUEST, Action.FAIL):
        return ConfigError(text, file=file)
    return Unavailable(f"{file}: {text}")


def is_repeated(fault: DeviceFault, attempt: int, seconds: float, limit_s: float) -> bool:
    """Whether a run is made once more: a run changes nothing, so it may be.

    Not after one that took long to fail, such as a hung one: its caller waits since then, and so do those behind it.

    Args:
        fault: how it ended.
        attempt: 0 for the first.
        seconds: it took.
        limit_s: longest time after which it is still repeated.
    """
    return attempt == 0 and seconds <= limit_s and fault.action in (Action.RETRY, Action.RELOAD, Action.RESTART)


@dataclass(frozen=True)
class RestartPolicy:
    """When a worker is started again, and when no longer.

    Attributes:
        first_delays_s: waits before the first attempts in a row; afterwards doubled up to ``longest_delay_s``.
        longest_delay_s: longest wait.
        max_in_a_row: attempts without a single good run in between; more mean that starting again does not help.
        max_in_window: restarts within ``window_s`` even if runs succeed in between.
        window_s: see there.
        probe_s: a worker that restarts do not help is out of service, and started once more after each such time.
        max_refused_runs: runs in a row that the device refuses, after which the worker is started again.
    """

    first_delays_s: tuple[float, ...] = (0.0, 0.5)
    longest_delay_s: float = 30.0
    max_in_a_row: int = 8
    max_in_window: int = 30
    window_s: float = 600.0
    probe_s: float = 60.0
    max_refused_runs: int = 2

    def delay_s(self, in_a_row: int) -> float:
        """Wait before attempt number ``in_a_row`` (from 1)."""
        if in_a_row <= len(self.first_delays_s):
            return self.first_delays_s[in_a_row - 1]
        doublings = in_a_row - len(self.first_delays_s)
        return min(self.first_delays_s[-1] * 2.0 ** min(doublings, 30), self.longest_delay_s)


def out_of_service(why: str, probe_s: float | None) -> str:
    """The sentence for requests while a device is out of service.

    Args:
        why: first line for the caller; the rest stays in the log.
        probe_s: time between attempts to get it back; ``None`` if a person must look.
    """
    reason = why.partition("\n")[0]
    if probe_s is None:
        return f"the device is out of service and needs a look; restart the server when it works again ({reason})"
    return f"the device is out of service and tried again every {probe_s:g} s ({reason})"


@dataclass
class RestartHistory:
    """Restarts so far."""

    policy: RestartPolicy
    in_a_row: int = 0
    times_s: list[float] = field(default_factory=list)
    refused_runs: int = 0

    def succeeded(self) -> None:
        """A run was good."""
        self.in_a_row = 0
        self.refused_runs = 0

    def refused(self) -> bool:
        """A run was refused; whether the worker must be started again, as what holds its memory may not go away."""
        self.refused_runs += 1
        if self.refused_runs < self.policy.max_refused_runs:
            return False
        self.refused_runs = 0
        return True

    def attempt(self, now_s: float) -> str:
        """Note one more attempt to start; returns why it must not be made, or ""."""
        self.in_a_row += 1
        self.times_s = [time for time in self.times_s if now_s - time < self.policy.window_s]
        self.times_s.append(now_s)
        if self.in_a_row > self.policy.max_in_a_row:
            return f"{self.policy.max_in_a_row} restarts in a row without a good run"
        if len(self.times_s) > self.policy.max_in_window:
            return f"{self.policy.max_in_window} restarts within {self.policy.window_s / 60:g} minutes"
        return ""

    @property
    def is_frequent(self) -> bool:
        """Whether restarts have become so many that repeating runs, each of which may cost one, would end in them."""
        return len(self.times_s) > self.policy.max_in_window // 3

    @property
    def delay_s(self) -> float:
        """Wait before the attempt last noted."""
        return self.policy.delay_s(max(self.in_a_row, 1))
