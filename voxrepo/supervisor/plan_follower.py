"""Following the rollouts' plan."""

from __future__ import annotations

import logging
from pathlib import Path

from voxrepo.rollout.plan import Plan, read_json
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)


class PlanFollower:
    """Holds the newest plan that could be read.

    Args:
        file: replaced whole by the controller; there is none as long as there was no rollout.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: tuple[int, int, int] | None = None
        self.plan = Plan()

    def refresh(self) -> bool:
        """Read the plan again if its file has changed. A bad file is logged once, and the last good plan kept.

        Returns:
            whether there is a new plan.
        """
        try:
            facts = self._file.stat()
        except OSError:
            return False
        stamp = facts.st_mtime_ns, facts.st_ino, facts.st_size
        if stamp == self._stamp:
            return False
        self._stamp = stamp  # before the read: a replacement during the read shows as a change next time
        try:
            plan = read_json(self._file, Plan)
        except ConfigError as error:
            log.error("the plan of the rollouts is not followed, generation %d stays: %s", self.plan.generation, error)
            return False
        if plan is None or plan == self.plan:
            return False
        log.info("plan generation %d: %s", plan.generation, ", ".join(sorted(plan.voices)) or "no rollout")
        self.plan = plan
        return True
