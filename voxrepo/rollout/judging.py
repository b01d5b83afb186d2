"""Judgements of rollouts, made anew when there is something new to judge, and never so often that it costs much."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from voxrepo.rollout.gates import Judgement, judge
from voxrepo.rollout.observed import Observed
from voxrepo.rollout.plan import STATUS_LIMIT_S
from voxrepo.rollout.spec import OverflowPolicy, TieredPolicy
from voxrepo.rollout.state import Rollout, judged_since

INTERVAL_S = 1.0
WINDOW_INTERVAL_S = 5.0
"""For policies judged by the last minutes: samples leave the window without anything new."""
MOST_SHARE = 0.05
"""Of the time for judging: fifty thousand requests take a part of a second, on a machine that has better to do."""


@dataclass
class _Made:
    judgement: Judgement
    step_started_at: float
    arrivals: int
    at_s: float
    took_s: float


class Judge:
    """Judges rollouts.

    Args:
        observed: the samples.
        ticks: seconds that only grow.
    """

    def __init__(self, observed: Observed, ticks: Callable[[], float] = time.monotonic) -> None:
        self._observed = observed
        self._ticks = ticks
        self._made: dict[str, _Made] = {}
        self._arrivals = 0

    def note(self, count: int) -> None:
        """So many requests or pairs have been taken over."""
        self._arrivals += count

    def judgement(self, rollout: Rollout, now: float) -> Judgement | None:
        """The newest; None if the rollout is in no state in which it is judged.

        Args:
            rollout: as it is.
            now: seconds since the epoch.

        Raises:
            ConfigError: the database is damaged.
        """
        if rollout.state.working_phase != "running":
            self._made.pop(rollout.id, None)
            return None
        made = self._made.get(rollout.id)
        if made is None or self._is_due(made, rollout):
            started_s = self._ticks()
            since = judged_since(rollout, now)
            # what is later was seen before the clock was set back
            samples = self._observed.samples(rollout, since, now + STATUS_LIMIT_S)
            judgement = judge(rollout.spec, samples, since)
            ended_s = self._ticks()
            made = _Made(judgement, rollout.state.step_started_at, self._arrivals, ended_s, ended_s - started_s)
            self._made[rollout.id] = made
        return made.judgement

    def _is_due(self, made: _Made, rollout: Rollout) -> bool:
        if made.step_started_at != rollout.state.step_started_at:
            return True
        age_s = self._ticks() - made.at_s
        if age_s < max(INTERVAL_S, made.took_s / MOST_SHARE):
            return False
        has_window = isinstance(rollout.spec.policy, OverflowPolicy | TieredPolicy)
        return made.arrivals != self._arrivals or (has_window and age_s >= WINDOW_INTERVAL_S)

    def verdicts(self, rollout: str) -> Judgement | None:
        """The last judgement of a rollout, for metrics; None if there is none."""
        made = self._made.get(rollout)
        return None if made is None else made.judgement
