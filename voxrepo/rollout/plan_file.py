"""The plan's file as the controller writes it: again and again the same from the states of the rollouts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from voxrepo.rollout.plan import Plan, PlannedVoice, ReplicaStatus, RolloutFolder, read_json, write_json
from voxrepo.rollout.state import Rollout, next_plan, planned_voice
from voxrepo.rollout.store import Store
from voxrepo_contract.errors import ConfigError

log = logging.getLogger(__name__)


class PlanFile:
    """Writes ``plan.json``.

    Args:
        folder: of the rollouts.
    """

    def __init__(self, folder: RolloutFolder) -> None:
        self._file = folder.plan_file
        self._newest = 0
        self._since: dict[str, tuple[PlannedVoice, int]] = {}

    def generation_of(self, rollout: Rollout) -> int:
        """Generation of the plan that first said what the rollout's state asks for, as far as this process knows.

        A later one does no harm: servers then have to take up that.
        """
        planned, generation = self._since.get(rollout.spec.voice, (None, self._newest))
        # a state whose plan has not been written: nobody can have taken it up
        return generation if planned == planned_voice(rollout) else self._newest + 1

    def bring_up_to_date(
        self, rollouts: Sequence[Rollout], statuses: Iterable[ReplicaStatus], store: Store, holder: str
    ) -> bool:
        """Write it if it does not say what the states of the rollouts ask for.

        Args:
            rollouts: all that have not ended.
            statuses: of the servers. None of them may have seen a newer generation than the one that is written.
            store: holds the lease.
            holder: of the lease.

        Returns:
            whether it was written.

        Raises:
            LeaseLost: another controller leads.
            ConfigError: it cannot be written.
        """
        is_there, current = self._read()
        self._newest = max([self._newest, current.generation, *(status.generation for status in statuses)])
        wanted = next_plan(current, rollouts)
        has_changed = wanted is not current and (is_there or bool(wanted.voices))
        if has_changed:
            wanted = Plan(generation=self._newest + 1, voices=wanted.voices)
            with store.under_lease(holder):
                try:
                    write_json(self._file, wanted)
                except OSError as error:
                    raise ConfigError(f"cannot be written: {error.strerror}", file=self._file) from error
            self._newest = wanted.generation
        self._since = {
            voice: self._since[voice]
            if voice in self._since and self._since[voice][0] == planned
            else (planned, wanted.generation)
            for voice, planned in wanted.voices.items()
        }
        return has_changed

    def _read(self) -> tuple[bool, Plan]:
        try:
            plan = read_json(self._file, Plan)
        except ConfigError as error:
            log.error("the plan is written anew: %s", error)
            return True, Plan()
        return plan is not None, plan or Plan()
