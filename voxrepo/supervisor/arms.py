"""Arms of rollouts on one server: follows the plan, one change at a time, and says what has come of it.

What takes time runs in a thread beside the watch; what has to wait for requests to end is asked again at every step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from voxrepo.repository.arms import CheckedArm, arm_model_name
from voxrepo.repository.check import CheckedVoice
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import STATUS_LIMIT_S, PlannedVoice, ReplicaStatus, ReplicaVoice, RolloutFolder, Versions
from voxrepo.supervisor.arm_book import ArmBook
from voxrepo.supervisor.arm_change import Change, EngineFacts, begin
from voxrepo.supervisor.arm_memory import free_bytes
from voxrepo.supervisor.arm_policy import (
    BRIDGE_ARM,
    DropMove,
    Failure,
    LoadArm,
    Release,
    Replace,
    StartMove,
    Swap,
    Withdraw,
    is_settled,
    next_action,
)
from voxrepo.supervisor.arm_record import RETRY_S, ArmRecord
from voxrepo.supervisor.arm_report import absent_voice, lines_of, table_of
from voxrepo.supervisor.board import Board
from voxrepo.supervisor.edges import Edges
from voxrepo.supervisor.plan_follower import PlanFollower
from voxrepo.supervisor.replica import StatusFile
from voxrepo_contract.names import VOICE_STAGES, stage_model_name

log = logging.getLogger(__name__)

UNLOAD_LIMIT_S = 120.0
"""For requests that still use what is to be unloaded; the longest streams end by then, or are cut off."""
BROKEN_LIMIT_S = 2.0
"""Likewise for what is broken: the edge gets the new table, its requests fail anyway."""
EXCHANGE_DRAIN_S = 15.0
"""For requests that have begun before versions are exchanged; what takes longer is cut off. Those that come meanwhile
wait at the edge, and half a minute is the most that they do."""
SUSPECT_S = 10.0
"""An engine that ends this soon after an arm was loaded ended because of it, as far as anybody can tell."""
_ENDED = "the engine ended while this was loaded"
END_WAIT_S = 2.0
"""For an operation to notice that its engine has ended."""


class Arms(ArmBook):
    """All arms of one server. Everything but the operations runs in the main thread.

    Args:
        layout: of the root.
        name: of this server among those of the root.
        board: told of rows and routes.
        edges: the edge's processes, ``None`` before their start.
        load_timeout_s: for the load of one model.

    Attributes:
        needs_fresh_engine: whether a voice could not be given its versions again, so that only a restart helps.
    """

    def __init__(
        self, layout: Layout, name: str, board: Board, edges: Callable[[], Edges | None], load_timeout_s: float
    ) -> None:
        self._edges = edges
        self._load_timeout_s = load_timeout_s
        folder = RolloutFolder(layout.rollouts)
        super().__init__(layout, board, PlanFollower(folder.plan_file))
        self._status = StatusFile(folder, name)
        self._carried_out = 0
        self.needs_fresh_engine = False

    @property
    def is_busy(self) -> bool:
        """Whether something is being loaded or unloaded."""
        return self._change is not None

    @property
    def held(self) -> set[str]:
        """Voices of which nothing goes on, because their versions are being exchanged."""
        return {name for name, record in self._records.items() if record.is_held}

    # the engine

    def start(self) -> None:
        """Say from now on that this server lives."""
        self._report(self._now_s)
        self._status.start()

    def engine_started(self, engine: EngineFacts) -> None:
        """An engine has loaded the voices, and nothing of arms."""
        self._engine = engine
        self.needs_fresh_engine = False
        for name, record in list(self._records.items()):
            voice = self._board.inventory.voices.get(name)
            if voice is not None:
                record.voice = voice
            record.forget_engine()

    def engine_ended(self, now_s: float, *, was_expected: bool = False) -> None:
        """The engine is gone, and all arms with it. The edge is not told yet.

        Args:
            now_s: time on the clock of ``time.monotonic``.
            was_expected: whether it was asked to end; else whatever was being loaded, or had just been, is to blame.
        """
        self._engine = None
        change, self._change = self._change, None
        if change is not None:
            change.given_up.set()
            change.run.join(END_WAIT_S)  # its calls fail with the engine
            if not was_expected:
                self._blame(change, _ENDED)
        for name, record in self._records.items():
            wanted = self._wanted(name)
            for arm, loaded_at_s in record.loaded_at_s.items():
                if wanted is not None and not was_expected and now_s - loaded_at_s < SUSPECT_S:
                    reason = f"the engine ended {now_s - loaded_at_s:.1f} s after this arm had been loaded"
                    versions = record.arms[arm].versions
                    self._fail(record, wanted, arm, versions, reason)
                    if versions == wanted.stable != record.voice.spec.versions:
                        record.stable_failure = Failure(wanted.rollout, dict(versions), reason)
            record.lose_engine(wanted, now_s)
            record.still_returning(wanted, now_s)
        self._board.arms = table_of(self._records, self._follower.plan)
        self._report(now_s)

    def _blame(self, change: Change, reason: str) -> None:
        action, record, wanted = change.action, change.record, change.wanted
        if wanted is None:
            return
        if isinstance(action, LoadArm):
            self._fail(record, wanted, action.arm, action.versions, reason)
        versions = change.new_stable
        if isinstance(action, LoadArm) and action.arm == BRIDGE_ARM:
            versions = action.versions
        if versions is not None:
            record.move = None
            log.error("%s keeps the versions %s: %s", record.name, record.voice.spec.versions, reason)
            record.stable_failure = Failure(wanted.rollout, dict(versions), reason)

    # each step

    def step(self, now_s: float, busy: Collection[str] = ()) -> None:
        """Look once; nothing here waits.

        Args:
            now_s: time on the clock of ``time.monotonic``.
            busy: voices that are being recovered, and are let alone.
        """
        was_away, self._now_s = now_s - self._now_s > STATUS_LIMIT_S, now_s
        before = self._follower.plan
        if self._follower.refresh():
            self._left.plan_changed(before, self._follower.plan, self._board.inventory.voices if was_away else ())
        self._take_stock()
        self._end_change(now_s)
        self._try_anew(now_s)
        self._publish()
        if self._engine is not None and self._change is None:
            for record in self._in_turn(busy):
                self._act(record, now_s)
                if self._change is not None or record.is_draining:
                    break
        self._report(now_s)

    def _in_turn(self, busy: Collection[str]) -> list[ArmRecord]:
        """Those for whom something may be done, in this order.

        One that drains is the only one: its requests wait, and must not wait for what is done for other voices, too.
        """
        free = []
        for name in sorted(self._records):
            if name not in busy and self._board.is_served(name):
                free.append(self._records[name])
            else:
                self._records[name].let_go_on()
        return [record for record in free if record.is_draining] or free

    def close(self, now_s: float) -> None:
        """The server ends: nothing is begun any more."""
        if self._change is not None:
            self._change.given_up.set()
        self._engine, self._change = None, None
        self._report(now_s)

    def _act(self, record: ArmRecord, now_s: float) -> None:
        wanted = self._wanted(record.name)
        while True:
            action = next_action(wanted, record.facts(), partial(self._is_free, record, now_s))
            if isinstance(action, Withdraw):
                log.info("%s is not offered any more", arm_model_name(record.name, action.arm))
                record.withdraw(action.arm, now_s)
            elif isinstance(action, StartMove):
                log.info("%s serves for %s, which gets its versions", action.move.bridge, record.name)
                record.move, record.move_since_s = action.move, now_s
            elif isinstance(action, DropMove):
                log.info("%s serves for itself again", record.name)
                record.move = None
            else:
                break
            self._publish()
        if not isinstance(action, Replace):
            record.let_go_on()
        if action is None or now_s < record.not_before_s:
            return
        if isinstance(action, Replace) and not self._is_drained(record, action, now_s):
            return
        assert self._engine is not None
        self._change = begin(action, record, wanted, self._engine, self._layout, self._load_timeout_s)

    def _is_free(self, record: ArmRecord, now_s: float, ensemble: str, versions: Versions) -> bool:
        since_s, limit_s = record.move_since_s, UNLOAD_LIMIT_S
        for leaving in record.leaving:
            if (leaving.ensemble, leaving.versions) == (ensemble, versions):
                since_s, limit_s = leaving.since_s, BROKEN_LIMIT_S if leaving.is_broken else UNLOAD_LIMIT_S
        if self._is_unused(ensemble, versions):
            return True
        if now_s - since_s < limit_s:
            return False
        if limit_s == UNLOAD_LIMIT_S:
            log.warning("%s is still in use after %g s; not waited for any more", ensemble, limit_s)
        return True

    def _is_unused(self, ensemble: str, versions: Versions) -> bool:
        """Whether all edges go by the newest table, and none of their requests uses this."""
        edges, table = self._edges(), self._board.table
        key = f"{ensemble}|" + ",".join(f"{stage}={versions[stage]}" for stage in VOICE_STAGES)
        return edges is not None and not table.is_behind and edges.are_free_of(table.generation, key)

    @property
    def _is_table_taken(self) -> bool:
        """Whether all edges go by the newest table."""
        edges, table = self._edges(), self._board.table
        return edges is not None and not table.is_behind and edges.wait_for(table.generation, lambda: True)

    def _is_drained(self, record: ArmRecord, action: Replace, now_s: float) -> bool:
        """Whether nothing of the voice goes on: what had begun has ended or took too long, and the rest is held."""
        if record.drain_since_s is None:
            log.warning(
                "%s changes from %s to %s; requests wait meanwhile, as the memory does not suffice for both",
                record.name,
                record.voice.spec.versions,
                action.versions,
            )
            record.drain_since_s = now_s
            return False
        if record.is_held:
            return record.name in self._board.state.held and self._is_table_taken
        if self._is_unused(record.name, record.voice.spec.versions):
            record.is_held = True
        elif now_s - record.drain_since_s >= EXCHANGE_DRAIN_S:
            log.warning("requests for %s still go on after %g s; they are cut off", record.name, EXCHANGE_DRAIN_S)
            record.is_held = True
        return False

    def _end_change(self, now_s: float) -> None:
        change, engine = self._change, self._engine
        if change is None or not change.run.is_done or engine is None:
            return
        self._change = None
        if change.run.problem is None:
            self._succeeded(change, engine, now_s)
            return
        if isinstance(change.action, LoadArm):  # what was loaded for it was unloaded again, and is about to end
            for stage, version in change.action.versions.items():
                if version not in change.standing.loaded.get(stage, frozenset()):
                    engine.released(stage_model_name(change.record.name, stage), {version}, now_s)
        change.record.let_go_on()
        self.needs_fresh_engine |= change.run.is_spoiled
        if change.is_disturbed:
            log.warning("failed while %s was recovered, tried again: %s", change.record.name, change.run.problem)
        elif isinstance(change.action, Release):
            log.error("%s could not be unloaded, tried again: %s", change.action.leaving.ensemble, change.run.problem)
            change.record.not_before_s = now_s + RETRY_S
        else:
            self._blame(change, change.run.problem)

    def _succeeded(self, change: Change, engine: EngineFacts, now_s: float) -> None:
        action, record, made = change.action, change.record, change.run.result
        if isinstance(action, LoadArm):
            assert isinstance(made, CheckedArm)
            record.arms[action.arm] = made
            record.loaded_at_s[action.arm] = now_s
            record.adds(action.versions)
            log.info("%s is ready after %.1f s", made.name, now_s - change.run.started_s)
        elif isinstance(action, Release):
            for stage, loaded in record.loaded.items():
                gone = loaded - change.standing.needed[stage]
                if gone:
                    engine.released(stage_model_name(record.name, stage), gone, now_s)
            record.released(action.leaving, change.standing)
            log.info("%s %s is unloaded", action.leaving.ensemble, action.leaving.versions)
        else:
            if isinstance(action, Swap):
                record.moved(record.arms[action.move.bridge].as_voice(), now_s)
            else:
                assert isinstance(made, CheckedVoice)
                record.voice = made
                record.forget_engine()
            log.info("%s has the versions %s", record.name, record.voice.spec.versions)
            self._board.move(record.voice)
            engine.voice_moved(record.voice)
        engine.new_stubs()

    # what is said of it

    def _report(self, now_s: float) -> None:
        plan, is_taken = self._follower.plan, self._is_table_taken
        for name, record in self._records.items():
            record.note_offered(self._wanted(name), is_taken=is_taken)
        voices = {name: self._voice_status(name, wanted) for name, wanted in plan.voices.items()}
        settled = all(
            is_settled(self._wanted(name), record.facts())
            for name, record in self._records.items()
            if self._board.is_served(name)
        )
        if self._engine is not None and settled and is_taken:
            self._carried_out = plan.generation
        lines = lines_of(voices)
        if lines != self._board.state.arms:
            self._board.update(arms=lines)
        status = ReplicaStatus(
            name=self._status.name,
            pid=0,
            updated_at=0.0,
            generation=self._carried_out,
            phase=self._board.state.phase,
            voices=voices,
            memory_free_bytes=free_bytes() if self._board.device == "cpu" else None,
        )
        self._status.tell(status, now_s)

    def _voice_status(self, name: str, wanted: PlannedVoice) -> ReplicaVoice:
        record = self._records.get(name)
        if record is not None and (self._engine is None or self._board.is_served(name)):
            return record.status(wanted)
        return absent_voice(wanted, is_known=self._engine is not None)
