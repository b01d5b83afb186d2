"""Carries out rollouts: looks at what servers say and what requests were like, decides, and writes the plan.

The order of one look is what makes every end of the process harmless. A decision is saved with the events that explain
it; the plan follows from what is saved, and is derived again at the next look whatever it says now; ``voice.yaml`` is
written before the state that needs it, and writing it twice is the same as once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress

from voxrepo.metrics.rollouts import rollouts_text
from voxrepo.repository.layout import Layout
from voxrepo.rollout.controllers import has_ended, read_sign, remove_old_signs
from voxrepo.rollout.decide import decide
from voxrepo.rollout.decision import Decision
from voxrepo.rollout.gates import Judgement
from voxrepo.rollout.inbox import Inbox
from voxrepo.rollout.judging import Judge
from voxrepo.rollout.observed import Observed
from voxrepo.rollout.pair_measures import ERROR_RATES, PairMeasures
from voxrepo.rollout.pairs_desk import PairsDesk
from voxrepo.rollout.pins import pin_versions
from voxrepo.rollout.plan import ReplicaStatus, RolloutFolder
from voxrepo.rollout.plan_file import PlanFile
from voxrepo.rollout.replica_folders import ReplicaFolders
from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import LeaseLost, StateChanged, Store
from voxrepo_contract.errors import ConfigError, VoxrepoError
from voxrepo_contract.yamlfile import write_text_atomically

log = logging.getLogger(__name__)

LEASE_S = 10.0
RENEW_S = 3.0
IDLE_LEASE_S = 30.0
IDLE_RENEW_S = 10.0
"""While there is no rollout; each renewal is a write to the disk."""
LINGER_S = 30.0
"""After the last rollout has ended, for what the edge still writes down of it."""
NOTE_INTERVAL_S = 1.0
METRICS_INTERVAL_S = 2.0


class Controller:
    """One of the controllers of a root. It leads while it holds the lease; else it waits.

    Args:
        layout: of the root.
        holder: its name in the lease, see :func:`voxrepo.rollout.controllers.this_process`.
        clock: seconds since the epoch.
        ticks: seconds that only grow, for what nobody else sees.
        measures: measures pairs.

    Raises:
        ConfigError: the database cannot be used.
        Unavailable: it is locked.
    """

    def __init__(
        self,
        layout: Layout,
        holder: str,
        *,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        measures: PairMeasures | None = None,
    ) -> None:
        self._layout = layout
        self._holder = holder
        self._clock = clock
        self._ticks = ticks
        self._folder = RolloutFolder(layout.rollouts)
        self._store = Store(self._folder.database, clock)
        observed = Observed(self._store.database)
        self._observed = observed
        self._inbox = Inbox(self._folder, observed, clock)
        self._pairs = PairsDesk(self._folder, observed, self._wants_error_rates, measures, clock)
        self._judge = Judge(observed, ticks)
        self._replicas = ReplicaFolders(self._folder, clock)
        self._plan = PlanFile(self._folder)
        self._leads = False
        self._renew_at_s = float("-inf")
        self._busy_until_s = float("-inf")
        self._waits_for = ""
        self._notes: dict[str, tuple[str, Judgement | None, float]] = {}
        self._complaints: dict[str, str] = {}
        self._wanted_rates: dict[str, bool] = {}
        self._metrics_at_s = float("-inf")
        self._metrics_text = ""

    @property
    def leads(self) -> bool:
        """Whether it held the lease at its last look."""
        return self._leads

    def close(self) -> None:
        """End: another controller may take over at once."""
        self._pairs.close()
        if self._leads:
            with suppress(VoxrepoError):
                self._store.release_lease(self._holder)
        self._store.close()

    # ---- one look

    def step(self) -> None:
        """Look once. Nothing here takes long but the database and files.

        Raises:
            ConfigError: the database or a file cannot be written; nothing was decided.
            Unavailable: the database is locked.
        """
        try:
            if self._store.active():
                self._busy_until_s = self._ticks() + LINGER_S
            if self._is_leader():
                if self.is_busy:
                    self._lead()
                self._show_numbers()
        except LeaseLost:
            self._leads = False

    @property
    def is_busy(self) -> bool:
        """Whether it leads and there is, or was a moment ago, a rollout."""
        return self._leads and self._ticks() < self._busy_until_s

    def _is_leader(self) -> bool:
        now_s = self._ticks()
        is_busy = now_s < self._busy_until_s
        if self._leads and now_s < self._renew_at_s:
            return True
        if not self._leads:
            other = self._store.lease_holder()
            if other is not None and other != self._holder and not self._free_from(other):
                if other != self._waits_for:
                    log.info("waiting: %s leads", other)
                    self._waits_for = other
                return False
        takes = self._store.take_lease(self._holder, LEASE_S if is_busy else IDLE_LEASE_S)
        self._renew_at_s = now_s + (RENEW_S if is_busy else IDLE_RENEW_S)
        if takes == "taken" or (takes and not self._leads):  # another may have led since the last look
            self._waits_for = ""
            self._take_up()
        self._leads = takes is not None
        return self._leads

    def _free_from(self, other: str) -> bool:
        """Whether the holder of the lease is known to be dead, so that its end need not be waited for."""
        sign = read_sign(self._folder, other)
        if sign is None or not has_ended(sign):
            return False
        self._store.release_lease(other)
        return True

    def _take_up(self) -> None:
        """This process leads from now on; say so in the log of each rollout that has not ended."""
        log.info("%s leads", self._holder)
        # what was remembered of an earlier lease is out of date
        self._judge, self._plan = Judge(self._observed, self._ticks), PlanFile(self._folder)
        # another may have ended between saving the end of a rollout and writing the plan without it
        self._busy_until_s = self._ticks() + LINGER_S
        remove_old_signs(self._folder)
        self._inbox.forget_lost()
        self._pairs.sweep()
        self._replicas.remove_old()
        for rollout in self._store.rollouts(only_active=True):
            if rollout.state.phase != "pending" or rollout.state.reason != "created":
                reason = f"{self._holder} goes on from {rollout.state.phase}: {rollout.state.reason}"
                self._store.explain(rollout, reason, holder=self._holder)

    def _lead(self) -> None:
        self._judge.note(self._inbox.take() + self._pairs.step())
        statuses = self._replicas.statuses()
        rollouts = self._store.rollouts(only_active=True)
        self._plan.bring_up_to_date(rollouts, statuses, self._store, self._holder)
        after = [self._carry_out(rollout, statuses) for rollout in rollouts]
        self._plan.bring_up_to_date(
            [rollout for rollout in after if not rollout.state.is_final], statuses, self._store, self._holder
        )

    def _carry_out(self, rollout: Rollout, statuses: list[ReplicaStatus]) -> Rollout:
        now = self._clock()
        judgement = self._judge.judgement(rollout, now)
        commands = self._store.commands(rollout.id)
        decision = decide(rollout, statuses, judgement, commands, now, self._plan.generation_of(rollout))
        if decision.state == rollout.state and not decision.events and not decision.consumed:
            self._note(rollout, decision, judgement)
            return rollout
        if decision.voice_versions is not None and not self._pin(rollout, decision):
            return rollout
        try:
            after = self._store.save(rollout, decision, holder=self._holder)
        except StateChanged:  # by nobody but a person with a database tool: look again
            return self._store.rollout(rollout.id)
        for event in decision.events:
            log.info("%s %s -> %s: %s", rollout.id, event.from_phase, event.to_phase, event.reason)
        self._notes.pop(rollout.id, None)
        if after.state.is_final:
            self._note(after, decision, judgement)
        return after

    def _pin(self, rollout: Rollout, decision: Decision) -> bool:
        assert decision.voice_versions is not None
        try:
            with self._store.under_lease(self._holder):
                changed = pin_versions(self._layout, rollout.spec.voice, decision.voice_versions)
        except ConfigError as error:
            self._complain(rollout, f"waits, since the versions cannot be pinned: {error.message}")
            return False
        if changed:
            log.info("%s pins %s", self._layout.voice_file(rollout.spec.voice), decision.voice_versions)
        return True

    # ---- what is said of it

    def _complain(self, rollout: Rollout, reason: str) -> None:
        """Say in the log of a rollout what keeps it from going on; the same only once."""
        if self._complaints.get(rollout.id) != reason:
            self._complaints[rollout.id] = reason
            log.error("%s %s", rollout.id, reason)
            self._store.explain(rollout, reason, holder=self._holder)

    def _note(self, rollout: Rollout, decision: Decision, judgement: Judgement | None) -> None:
        if self._pairs.fault and self._wants_error_rates(rollout.id):
            self._complain(rollout, f"error rates are not measured: {self._pairs.fault}")
        now_s = self._ticks()
        waiting, known, at_s = self._notes.get(rollout.id, ("", None, float("-inf")))
        if (waiting, known) == (decision.waiting, judgement) or now_s - at_s < NOTE_INTERVAL_S:
            return
        self._notes[rollout.id] = (decision.waiting, judgement, now_s)
        if judgement is None:  # what the last step was judged by stays to be seen
            judgement = self._store.progress(rollout.id).judgement
        self._store.note(rollout.id, decision.waiting, judgement, holder=self._holder)

    def _wants_error_rates(self, rollout: str) -> bool:
        if rollout not in self._wanted_rates:
            try:
                gates = self._store.rollout(rollout).spec.judged_gates
            except VoxrepoError:
                return False
            self._wanted_rates[rollout] = any(gate.metric in ERROR_RATES for gate in gates)
        return self._wanted_rates[rollout]

    def _show_numbers(self) -> None:
        now_s = self._ticks()
        if now_s - self._metrics_at_s < METRICS_INTERVAL_S:
            return
        self._metrics_at_s = now_s
        active = self._store.rollouts(only_active=True)
        judgements = {rollout.id: self._judge.verdicts(rollout.id) for rollout in active}
        text = rollouts_text(active, judgements, self._store.ended(), self._pairs.dropped)
        file = self._folder.metrics_file
        with suppress(OSError):  # on a full disk the numbers get old, and are not shown any more
            if text == self._metrics_text and file.exists():
                os.utime(file)
            else:
                write_text_atomically(file, text)
                self._metrics_text = text
